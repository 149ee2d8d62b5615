// View of the library: grid, or table with selected columns. The tab stores it until the user signs out.

import { useState } from "preact/hooks";
import { onSession, user } from "../core/session.js";
import { texts } from "../texts/index.js";

/** @typedef {{ kind: "grid" | "table", columns: string[] }} View */

const STORAGE_KEY = "library-view";

/** Labels of the optional columns, by name. @type {Record<string, string>} */
export const COLUMNS = {
  status: texts.fields.status, visibility: texts.fields.visibility, created: texts.fields.createdAt, duration: texts.fields.duration,
  views: texts.fields.viewCount, category: texts.fields.category, owner: texts.fields.userId,
};
/** @type {View} */
const FIRST = { kind: "grid", columns: ["status", "visibility", "created", "duration", "views"] };

onSession(() => {
  if (!user()) sessionStorage.removeItem(STORAGE_KEY);
});

/** @returns {[View, (change: Partial<View>) => void]} */
export function useView() {
  const [view, setView] = useState(() => /** @type {View} */ ({ ...FIRST, ...JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? "{}") }));
  const change = (/** @type {Partial<View>} */ part) => {
    const after = { ...view, ...part };
    sessionStorage.setItem(STORAGE_KEY, JSON.stringify(after));
    setView(after);
  };
  return [view, change];
}
