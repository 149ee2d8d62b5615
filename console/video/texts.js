// Captions and chapters of a video.

import { html } from "htm/preact";
import Captions from "./captions.js";
import ChapterList from "./chapters.js";

/** @param {import("../screens/video.js").PartProps} props */
export default function Texts(props) {
  return html`<${Captions} ...${props} /><${ChapterList} ...${props} />`;
}
