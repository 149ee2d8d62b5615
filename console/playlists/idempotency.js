// Idempotency keys of requests that must not be applied twice.

import { useRef } from "preact/hooks";

/** Return a function that sends content with an `Idempotency-Key`. Attempts with equal content have the same key until one succeeds.
 * @returns {<T>(content: unknown, send: (key: string) => Promise<T>) => Promise<T>} */
export function useIdempotencyKey() {
  const last = useRef({ text: "", key: "" });
  return async (content, send) => {
    const text = JSON.stringify(content);
    if (last.current.text !== text) last.current = { text, key: crypto.randomUUID() };
    const result = await send(last.current.key);
    last.current = { text: "", key: "" }; // sending equal content later is a new request
    return result;
  };
}
