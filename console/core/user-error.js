// Errors whose text is written for users. The text of any other error, such as a library's, is never shown.

export class UserError extends Error {}
