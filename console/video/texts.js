// What the film says and how it is divided: captions in several languages, and chapters.

import { html } from "htm/preact";
import Captions from "./captions.js";
import ChapterList from "./chapters.js";

/** @param {import("../screens/video.js").PartProps} props */
export default function Texts(props) {
  return html`<${Captions} ...${props} /><${ChapterList} ...${props} />`;
}
