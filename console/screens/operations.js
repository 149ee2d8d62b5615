// Operations, for administrators: state of the service, and problems to handle. Panels are in `operations/`.

import { html } from "htm/preact";
import { useErrorBoundary, useState } from "preact/hooks";
import { ALL_USERS, useChanges } from "../core/changes.js";
import { hrefTo } from "../core/route.js";
import { Failure } from "../design/parts.js";
import FailedJobs from "../operations/failed.js";
import Health from "../operations/health.js";
import Overview from "../operations/overview.js";
import Questions from "../operations/questions.js";
import Tags from "../operations/tags.js";
import Top from "../operations/top.js";
import Totals from "../operations/totals.js";
import WaitingJobs from "../operations/waiting.js";
import { texts } from "../texts/index.js";

const TEXT = texts.operations;

/** @typedef {import("../core/route.js").Route} Route */
/** Props of panels. `changes` are the latest feed entries; null if some were skipped because there were too many.
 * @typedef {{ route: Route, changes: import("../core/changes.js").Change[] | null }} PanelProps */

/** @param {{ route: Route, user: import("../core/session.js").User }} props */
export default function Operations({ route, user }) {
  const [changes, setChanges] = useState(/** @type {PanelProps["changes"]} */ ([]));
  useChanges(user.isAdmin ? ALL_USERS : null, setChanges);
  if (!user.isAdmin) {
    return html`<h1>${TEXT.title}</h1>
      <p>${TEXT.refused} <a href=${hrefTo([])}>${texts.common.goToLibrary}</a></p>`;
  }
  if (route.path[1] === "questions") return html`<${Questions} />`;
  return html`<h1>${TEXT.title}</h1>
    <p><a href=${hrefTo(["operations", "questions"])}>${TEXT.toQuestions}</a></p>
    <${PanelBoundary} panel=${Overview} route=${route} changes=${changes} />
    <div class="panels">
      ${[Health, FailedJobs, WaitingJobs, Totals, Tags, Top].map((panel) => html`<${PanelBoundary} key=${panel.name} panel=${panel} route=${route} changes=${changes} />`)}
    </div>`;
}

/** Error boundary of a panel, so that the others stay when it fails.
 * @param {{ panel: (props: PanelProps) => unknown } & PanelProps} props */
function PanelBoundary({ panel, ...props }) {
  const [broken, reset] = useErrorBoundary();
  if (broken) return html`<section class="panel"><${Failure} error=${broken} retry=${reset} /></section>`;
  return html`<${panel} ...${props} />`;
}
