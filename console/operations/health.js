// Health check of the service.

import { html } from "htm/preact";
import { api, ask } from "../core/api.js";
import { useInterval, useLoad } from "../core/load.js";
import { Failure, Loading } from "../design/parts.js";
import { texts } from "../texts/index.js";
import { Panel } from "./panel.js";

const TEXT = texts.operations.health;

const PAUSE_MS = 30_000;
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

export default function Health() {
  // A failed check is also a result, which stays until the next one.
  const loaded = useLoad(async (signal) => {
    const start = performance.now();
    try {
      await ask(api.GET("/health", { signal }));
      return { took: Math.round(performance.now() - start), at: Date.now() };
    } catch (error) {
      return { error };
    }
  }, []);
  useInterval(loaded.reload, PAUSE_MS, true);
  const { value } = loaded;
  return html`<${Panel} title=${TEXT.title} class="panel-wide" refresh=${loaded.reload}>
    ${!value ? html`<${Loading} />`
      : "error" in value ? html`<${Failure} error=${value.error} retry=${loaded.reload} />`
        : html`<p class="health"><strong class="status status-ready">${TEXT.healthy}</strong>
          <span>${TEXT.responds(value.took, CLOCK.format(value.at))}</span></p>`}
  <//>`;
}
