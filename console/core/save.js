// Downloads of files that the page creates.

/** Download a text as a file. @param {string} name of the file @param {string} text @param {string} type media type */
export function saveFile(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000); // the browser may start the download later
}
