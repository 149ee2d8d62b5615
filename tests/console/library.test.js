// The library's content by address, and its order.

import assert from "node:assert/strict";
import { test } from "node:test";
import { addressOf, toQuery, parseFilters, countFilters, filtersOf, feedOwner, hasOrders, sortOf, withKind, withOrder, withoutFilters, withValue } from "../../console/library/filters.js";
import { noteCreation, sortByCreation } from "../../console/library/creation-order.js";
import { signOut } from "../../console/core/session.js";
import { targetIndex } from "../../console/library/grid.js";
import { serve, signIn } from "./support.js";

const ALICE = { subject: "alice", isAdmin: false, followsAll: false };
const ADMIN = { subject: "admin", isAdmin: true, followsAll: true };
const at = (query) => parseFilters(new URLSearchParams(query));

test("an address determines the list and its API request", () => {
  const kinds = {
    "": ["mine", { userId: "alice" }],
    "userId=me&category=sea": ["mine", { userId: "alice", category: "sea" }],
    "show=everyone": ["everyone", {}],
    "tag=sea&category=travel": ["tag", { tag: "sea", category: "travel" }],
    "region=nz": ["region", { region: "nz" }],
    "userId=bob": ["user", { userId: "bob" }],
    "category=travel": ["category", { category: "travel" }],
    "status=failed&order=asc": ["status", { status: "failed", order: "asc" }],
    "show=top&window=week&tag=sea": ["top", { window: "week" }],
    "folder=a/b&subfolders=true": ["folder", { folder: "a/b", subfolders: "true" }],
    "show=folder": ["folder", null],
    "show=tag": ["tag", null],
    "show=nonsense&other=1": ["mine", { userId: "alice" }],
    "show=constructor": ["mine", { userId: "alice" }],
  };
  for (const [query, [kind, values]] of Object.entries(kinds)) {
    assert.equal(at(query).kind, kind, query);
    assert.deepEqual(toQuery(at(query), ALICE), values, query);
  }
});

test("each choice has an address that is parsed to the same choice", () => {
  for (const address of ["#/", "#/?userId=me&category=sea", "#/?show=everyone", "#/?tag=sea&order=asc", "#/?show=region", "#/?show=top&window=week"]) {
    assert.equal(addressOf(at(address.slice(3))), address);
  }
  assert.equal(withValue(at("tag=sea"), "tag", "boats"), "#/?tag=boats");
  assert.equal(withValue(at("userId=me&category=sea"), "category", ""), "#/?userId=me");
  assert.equal(withKind(at("tag=sea&minDuration=60000&order=asc&category=x"), "region"), "#/?show=region&minDuration=60000&order=asc");
  assert.equal(withKind(at("tag=sea&minDuration=60000"), "top"), "#/?show=top");
  assert.equal(withKind(at("tag=sea&minDuration=60000&from=5"), "folder"), "#/?show=folder&minDuration=60000");
  assert.equal(withoutFilters(at("folder=a&subfolders=true&format=mp4")), "#/?folder=a&subfolders=true");
  assert.deepEqual(filtersOf(at("folder=a"), ALICE), ["category", "format", "minDuration", "maxDuration"]);
  assert.equal(withoutFilters(at("userId=me&category=sea&order=asc&format=mp4")), "#/?userId=me&order=asc");
  assert.equal(withoutFilters(at("tag=sea&format=mp4")), "#/?tag=sea");
});

test("lists of one owner or category can be sorted by other fields, without a time range", () => {
  assert.deepEqual(["", "userId=bob", "category=sea", "tag=sea", "show=everyone"].map((query) => hasOrders(at(query))), [true, true, true, false, false]);
  const long = withOrder(at("category=sea&releaseYear=1999&from=5&minDuration=60000"), "duration", false);
  assert.equal(long, "#/?category=sea&minDuration=60000&sort=duration");
  assert.equal(sortOf(at(long.slice(3))), "duration");
  assert.equal(withOrder(at("category=sea&from=5"), "title", true), "#/?category=sea&sort=title&order=asc");
  assert.equal(withOrder(at(long.slice(3)), "createdAt", true), "#/?category=sea&minDuration=60000&order=asc");
  assert.equal(withKind(at("category=sea&sort=duration&order=asc"), "tag"), "#/?show=tag&order=asc");
  assert.deepEqual(filtersOf(at("category=sea"), ALICE), ["releaseYear", "format", "minDuration", "maxDuration", "from", "to"]);
  assert.deepEqual(filtersOf(at("category=sea&sort=duration"), ALICE), ["format", "minDuration", "maxDuration"]);
});

test("a list offers the filters that the API permits, and the filters that are set", () => {
  const offered = (query, user = ALICE) => filtersOf(at(query), user).filter((name) => !["releaseYear", "format", "minDuration", "maxDuration", "from", "to"].includes(name));
  assert.deepEqual(offered(""), ["category", "status"]);
  assert.deepEqual(offered("userId=bob"), ["category"]);
  assert.deepEqual(offered("userId=bob", ADMIN), ["category", "status"]);
  assert.deepEqual(offered("tag=sea"), ["userId", "category"]);
  assert.deepEqual(offered("tag=sea&userId=me"), ["userId", "category", "status"]);
  assert.deepEqual(offered("status=ready", ADMIN), []);
  assert.deepEqual(offered("category=sea&status=failed"), ["status"]); // the API refuses it, which is shown there
  assert.deepEqual(filtersOf(at("show=top"), ALICE), []);
  assert.equal(countFilters(at("tag=sea&category=x&format=mp4&order=asc"), ALICE), 2);
});

test("a list subscribes to the feed of the user whose videos it can show, if permitted", () => {
  const owners = { "": "alice", "userId=me": "alice", "userId=alice": "alice", "userId=bob": null, "tag=sea": "alice", "show=tag": null, "show=top": null };
  for (const [query, owner] of Object.entries(owners)) assert.equal(feedOwner(at(query), ALICE), owner, query);
  assert.equal(feedOwner(at("tag=sea"), ADMIN), "*");
  assert.equal(feedOwner(at("userId=bob"), ADMIN), "bob");
});

test("arrow keys move in the grid by rows and columns, and stay in it", () => {
  const cards = (count, columns) => Array.from({ length: count }, (_, index) => ({ getBoundingClientRect: () => ({ top: Math.floor(index / columns) }) }));
  const ten = cards(10, 4);
  const moves = [
    ["ArrowRight", 0, 1], ["ArrowRight", 9, 9], ["ArrowLeft", 0, 0], ["ArrowLeft", 5, 4], ["ArrowDown", 1, 5], ["ArrowDown", 6, 9],
    ["ArrowDown", 9, -1], ["ArrowUp", 5, 1], ["ArrowUp", 2, -2], ["Home", 7, 0], ["End", 0, 9], ["x", 3, -1],
  ];
  for (const [key, from, expected] of moves) assert.equal(targetIndex(key, ten, from), expected, `${key} from ${from}`);
  assert.equal(targetIndex("ArrowDown", cards(3, 4), 1), -1);
});

test("signing out discards the order of the tab's new videos", async () => {
  serve(() => ({ status: 404 }));
  signIn();
  noteCreation()("a");
  const late = noteCreation();
  assert.ok(sessionStorage.getItem("created"));
  await signOut();
  late("b"); // its response arrived later
  assert.equal(sessionStorage.getItem("created"), null);
});

test("videos that this tab created in one second are in the order of their requests", () => {
  signIn();
  const [first, second, third] = [noteCreation(), noteCreation(), noteCreation()];
  third("a"); // in any order of the responses
  first("c");
  second("b");
  const at = (createdAt, ...ids) => ids.map((videoId) => ({ videoId, createdAt }));
  const order = (items, isNewestFirst = true) => sortByCreation(items, isNewestFirst).map(({ videoId }) => videoId).join("");
  assert.equal(order(at(5, "c", "b", "a")), "abc");
  assert.equal(order(at(5, "b", "a", "c"), false), "cba");
  assert.equal(order([...at(6, "c"), ...at(5, "b", "a")]), "cab"); // another second sorts first, in any order of the requests
  assert.equal(order(at(5, "x", "c", "y", "a")), "xayc"); // other users' videos keep their place
  assert.deepEqual(JSON.parse(sessionStorage.getItem("created")), ["c", "b", "a"]);
});
