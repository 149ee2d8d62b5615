// Requests that must not be carried out twice.

import { useRef } from "preact/hooks";

/** Returns how to send a content once: until that succeeds, each attempt to send the same has the same `Idempotency-Key`.
 * @returns {<T>(content: unknown, send: (key: string) => Promise<T>) => Promise<T>} */
export function useIdempotencyKey() {
  const last = useRef({ text: "", key: "" });
  return async (content, send) => {
    const text = JSON.stringify(content);
    if (last.current.text !== text) last.current = { text, key: crypto.randomUUID() };
    const answer = await send(last.current.key);
    last.current = { text: "", key: "" }; // the same again is meant
    return answer;
  };
}
