// Total of a time series, with a line chart.

import { html } from "htm/preact";
import { count } from "../core/formats.js";

const HEIGHT = 40;
const WIDTH = 300;

/** Sum of `counts`, the period `time`, and a line chart of the counts, oldest first. Screen readers get `label`.
 * @param {{ counts: number[], time: string, label: string }} props */
export function Sparkline({ counts, time, label }) {
  const most = Math.max(1, ...counts);
  const drawn = counts.length === 1 ? [...counts, ...counts] : counts; // one count is drawn as a horizontal line
  const step = WIDTH / Math.max(1, drawn.length - 1);
  const points = drawn.map((value, index) => `${(index * step).toFixed(1)},${(HEIGHT - (HEIGHT * value) / most).toFixed(1)}`).join(" ");
  return html`<figure class="spark">
    <figcaption><strong>${count(counts.reduce((sum, value) => sum + value, 0))}</strong> <span class="hint">${time}</span></figcaption>
    <svg viewBox=${`0 -1 ${WIDTH} ${HEIGHT + 2}`} role="img" aria-label=${label} preserveAspectRatio="none">
      <polygon points=${`0,${HEIGHT} ${points} ${WIDTH},${HEIGHT}`} />
      <polyline points=${points} />
    </svg>
  </figure>`;
}
