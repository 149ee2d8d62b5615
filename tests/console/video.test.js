// The form of a video, conflicts between two users, and the contents of its files.

import assert from "node:assert/strict";
import { test } from "node:test";
import { html } from "htm/preact";
import { languageOfFile } from "../../console/video/captions.js";
import { withTitles, sortRows } from "../../console/video/chapters.js";
import { draftOf, faultsIn, newPair, valuesIn, withTag } from "../../console/video/draft.js";
import { compare, keyOf, labelOf, merged, patchOf, pointerTo, valuesOf } from "../../console/video/fields.js";
import { VideoFields } from "../../console/video/overview.js";
import { languageName, nameOf, regionName } from "../../console/video/names.js";
import { unplayableReason } from "../../console/video/player.js";
import { listFault, parameterFault, lines } from "../../console/video/item-form.js";
import { bestQuality, SOURCE } from "../../console/video/playback.js";
import { parseTiles } from "../../console/video/storyboard.js";
import { escaped } from "../../console/video/tracks.js";
import { elementsOf, textOf } from "./support.js";
import { Problem } from "../../console/core/api.js";

const VIDEO = {
  videoId: "a", title: "Before", description: null, tags: ["old", "stays"], season: null, expiresAt: 4_000_000_001,
  status: "ready", metadata: { "a/b~": "x", gone: 1, done: true },
};
const values = (fields) => new Map(Object.entries(fields));

test("a form contains the editable fields, and sends unchanged fields with their original values", () => {
  const before = valuesOf(VIDEO);
  assert.deepEqual([...before.keys()], ["/title", "/tags", "/expiresAt", "/metadata/a~1b~0", "/metadata/gone", "/metadata/done"]);
  assert.deepEqual(patchOf(before, valuesIn(draftOf(before), before)), {});
});

test("a patch contains changed fields, and null for removed ones", () => {
  const before = valuesOf({ ...VIDEO, description: "Goes away" });
  const draft = draftOf(before);
  Object.assign(draft.texts, { title: "After", description: "", releaseYear: " 1999 ", publishAt: "2030-01-02T03:04", language: " " });
  draft.tags = ["stays"];
  draft.tag = " new ";
  draft.pairs = [{ ...draft.pairs[0], value: "y" }, draft.pairs[2], { ...newPair("take"), kind: "number", value: "2.5" }, newPair()];
  assert.deepEqual(structuredClone(patchOf(before, valuesIn(draft, before))), {
    title: "After", description: null, tags: ["stays", "new"], releaseYear: 1999,
    publishAt: new Date(2030, 0, 2, 3, 4).getTime() / 1000, // in the time zone of the browser
    metadata: { "a/b~": "y", gone: null, take: 2.5 },
  });
});

test("any name is a metadata key, including properties of a prototype", () => {
  const before = valuesOf({ ...VIDEO, metadata: JSON.parse('{"__proto__": "x"}') });
  const draft = draftOf(before);
  draft.pairs[0].value = "changed";
  assert.equal(JSON.stringify(patchOf(before, valuesIn(draft, before))), '{"metadata":{"__proto__":"changed"}}');
});

test("text that is not a number or year is sent as typed, so that the API rejects it", () => {
  const before = values({ "/title": "Before" });
  const draft = draftOf(before);
  Object.assign(draft.texts, { title: "", releaseYear: "soon", season: "-1" });
  assert.deepEqual(patchOf(before, valuesIn(draft, before)), { title: "", releaseYear: "soon", season: "-1" });
});

test("a duplicate key, and a value that is not a number, are reported at their rows", () => {
  const pairs = [newPair("a", 1), newPair("a", "x"), { ...newPair("b"), kind: "number", value: "1,5" }, { ...newPair("c"), kind: "number", value: " " }, newPair()];
  assert.deepEqual([...faultsIn({ texts: { title: "A film" }, pairs })], [
    [pairs[1].id, "This key is already used."], [pairs[2].id, "Enter a number."], [pairs[3].id, "Enter a number."],
  ]);
});

test("a typed tag is added once", () => {
  assert.deepEqual(withTag({ tags: ["sea"], tag: " boats " }), { tags: ["sea", "boats"], tag: "" });
  assert.deepEqual(withTag({ tags: ["sea"], tag: "sea" }).tags, ["sea"]);
});

test("a field that only one user changed merges automatically, and one that both changed needs a decision", () => {
  const before = values({ "/title": "Harbour", "/tags": ["a", "b"], "/category": "travel", "/metadata/take": 1 });
  const mine = values({ "/title": "Mine", "/tags": ["b", "a"], "/category": "travel", "/language": "mi" });
  const theirs = values({ "/title": "Theirs", "/tags": ["a", "b"], "/category": "harbours", "/metadata/take": 1 });
  const differences = compare(before, mine, theirs);
  assert.deepEqual(differences.map(({ pointer, by }) => [pointer, by]), [
    ["/title", "both"], ["/category", "them"], ["/metadata/take", "you"], ["/language", "you"],
  ]);
  const shared = { "/tags": ["a", "b"], "/category": "harbours", "/language": "mi" };
  for (const [choice, title] of [["mine", "Mine"], ["theirs", "Theirs"], [undefined, "Theirs"]]) {
    const choices = new Map(choice && [["/title", choice]]);
    assert.deepEqual(Object.fromEntries(merged(theirs, differences, choices)), { ...shared, "/title": title });
  }
});

test("two users with the same change have no conflict", () => {
  assert.deepEqual(compare(values({ "/title": "a" }), values({ "/title": "b" }), values({ "/title": "b" })), []);
  assert.equal(compare(values({}), values({ "/tags": ["a"] }), values({ "/tags": ["b"] }))[0].by, "both");
});

test("metadata keys in pointers are escaped as in RFC 6901", () => {
  for (const key of ["a/b", "~1", "~", "__proto__"]) assert.equal(keyOf(pointerTo(key)), key);
  assert.deepEqual([labelOf("/publishAt"), labelOf(pointerTo("a/b")), labelOf("/new")], ["Published from", "Metadata: a/b", "/new"]);
});

test("languages, regions and jobs have names, and a code without a name is shown unchanged", () => {
  assert.deepEqual(["en-NZ", "mi", "??"].map(languageName), ["English (New Zealand)", "Māori", "??"]);
  assert.deepEqual(["NZ", "XWW", "nowhere"].map(regionName), ["New Zealand", "Worldwide", "nowhere"]);
  assert.deepEqual([regionName("constructor"), nameOf("constructor")], ["constructor", "constructor"]);
  assert.deepEqual(["probe", "transcode.720p", "new"].map(nameOf), ["Probe", "Rendition 720p", "new"]);
});

test("the name of a caption file determines the language", () => {
  const names = { "ride.en-NZ.srt": "en-NZ", "ride.pt-BR.vtt": "pt-BR", "ride.de.VTT": "de", "ride.vtt": undefined, "my.film.vtt": undefined, "ride.en.txt": undefined };
  for (const [name, language] of Object.entries(names)) assert.equal(languageOfFile(name), language, name);
});

test("chapters are sorted by start, and an invalid or duplicate start is reported at its row", () => {
  const row = (id, start) => ({ id, start, title: `${id}` });
  const { sorted, faults } = sortRows([row(1, "0:06.5"), row(2, "0:00"), row(3, "0:02")]);
  assert.deepEqual(sorted.map(({ row: { id }, start }) => [id, start]), [[2, 0], [3, 2_000], [1, 6_500]]);
  assert.equal(faults.size, 0);
  assert.deepEqual([...sortRows([row(1, "0:75"), row(2, "0:05"), row(3, "0:05.0")]).faults], [
    [1, "Enter a time such as 5:30, 1:05:30 or 0:31.5."], [3, "Another chapter starts at this time."],
  ]);
});

test("proposed chapters without titles are numbered", () => {
  assert.deepEqual(withTitles([{ start: 0 }, { start: 5, title: "Sea" }]), [{ start: 0, title: "Chapter 1" }, { start: 5, title: "Sea" }]);
});

test("tiles of a storyboard have times and positions, and only images of the deployment are included", () => {
  const base = `${location.origin}/films/storyboard.vtt?X-Amz=1`;
  const text = [
    "WEBVTT", "", "00:00.000 --> 00:05.000", "storyboard.jpg#xywh=0,0,160,68", "", "01:00:05.000 --> 01:00:10.500",
    "storyboard.jpg#xywh=160,0,160,68", "", "00:10.000 --> 00:15.000", "https://elsewhere.example/a.jpg#xywh=0,0,1,1", "",
    "00:15.000 --> 00:20.000", "storyboard.jpg",
  ].join("\r\n");
  const url = `${location.origin}/films/storyboard.jpg`;
  assert.deepEqual(parseTiles(text, base), [
    { start: 0, end: 5, url, x: 0, y: 0, width: 160, height: 68 },
    { start: 3_605, end: 3_610.5, url, x: 160, y: 0, width: 160, height: 68 },
  ]);
});

test("a file that the service could not read is not reported as an error of the browser or the connection", () => {
  const reason = "The file is not a video in a supported format.";
  const qualities = [{ name: "source", type: "video/mp4", url: "u" }];
  const messageFor = (video) => unplayableReason(/** @type {any} */ (video), qualities);
  assert.equal(messageFor({ status: "failed", failure: { job: "probe", reason } }), reason);
  const perhaps = "The browser does not support the format (video/mp4), or the file cannot be loaded.";
  assert.equal(messageFor({ status: "failed", failure: { job: "poster", reason } }), perhaps);
  assert.equal(messageFor({ status: "ready", failure: { job: "probe", reason } }), perhaps);
  assert.equal(messageFor({ status: "processing" }), `${perhaps} Renditions for all browsers are being processed.`);
});

test("the fields of a video name its renditions without storage addresses", () => {
  const shown = textOf(html`<${VideoFields} video=${{ ...VIDEO, createdAt: 1, resolutions: { "240p": "s3://media/secret.mp4", mine: "https://a.example/b.mp4" } }} />`);
  assert.match(shown, /Renditions240pAvailable mineAvailable a\.example$/);
  assert.doesNotMatch(shown, /secret|s3:/);
});

test("the fields are in groups, and a mark shows which were read from the file", () => {
  const origins = { duration: "job", format: "person", videoCodec: "import" };
  const source = { contentType: "video/mp4", fileSize: 1_500_000, arrivedAt: 1_700_000_000 };
  const node = html`<${VideoFields} video=${{ ...VIDEO, createdAt: 1, duration: 61_000, format: "mp4", videoCodec: "h264", origins, source, renditions: { "240p": { size: 1_200_000 } } }} />`;
  assert.deepEqual(elementsOf(node, "h3").map(textOf), ["Details", "Source file", "Renditions"]);
  assert.match(textOf(node), /Duration1:01 read from the fileFormatmp4 editedVideo codech264 imported/);
  assert.match(textOf(node), /Renditions240p1\.2 MB/);
  assert.deepEqual(elementsOf(node, "span").map(({ props }) => props.title).filter(Boolean), ["Read from the file", "Edited", "Imported"]);
});

test("a chapter's title is escaped in a cue", () => {
  assert.equal(escaped("<b>R&B</b>"), "&lt;b&gt;R&amp;B&lt;/b&gt;");
});

test("a list has one item per line, and its errors are joined", () => {
  assert.deepEqual(lines(" George \n\nThe pilot\n"), ["George", "The pilot"]);
  const problem = new Problem({ status: 422, title: "", detail: "", errors: [
    { pointer: "/roles/0/characters/1", detail: "too long" }, { pointer: "/roles/0/charactersX", detail: "other" }, { parameter: "personId", detail: "letters" },
  ] });
  assert.equal(listFault(problem, "/roles/0/characters"), "too long");
  assert.equal(listFault(problem, "/roles/1/characters"), undefined);
  assert.equal(parameterFault(problem, "personId"), "letters");
});

const quality = (name, width) => ({ name, width, height: width * 9 / 16, type: "video/mp4", url: name });
const [P1080, P720, P240] = [quality("1080p", 1920), quality("720p", 1280), quality("240p", 426)];
const source = (width) => quality(SOURCE, width);
for (const [what, qualities, width, expected] of [
  ["the smallest rendition that fills the player", [P1080, P720, P240, source(1920)], 900, "720p"],
  ["the source while no rendition is large enough and the source is much larger", [P240, source(1280)], 900, SOURCE],
  ["the largest rendition if the source is hardly larger", [P240, source(480)], 900, "240p"],
  ["the largest rendition if the size of the source is unknown", [P240, { ...source(0), width: undefined }], 900, "240p"],
  ["a small rendition in a small player", [P240, source(1280)], 300, "240p"],
  ["the largest rendition without a source", [P720, P240], 2000, "720p"],
  ["the source while there are no renditions", [source(1280)], 900, SOURCE],
]) {
  test(`a player first shows ${what}`, () => {
    assert.equal(bestQuality(qualities, width, width * 9 / 16)?.name, expected);
  });
}

test("a player without sources shows nothing", () => {
  assert.equal(bestQuality([], 900, 500), undefined);
});
