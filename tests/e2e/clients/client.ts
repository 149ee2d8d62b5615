// What somebody writes who calls the service from TypeScript, with a client made by openapi-typescript and openapi-fetch.

import createClient from "openapi-fetch";

import type { components, paths } from "./schema";

type Video = components["schemas"]["Video"];
type Answer<Body> = { data?: Body; error?: unknown; response: Response };

function body<Body>(answer: Answer<Body>): Body {
  if (answer.data === undefined) throw new Error(`${answer.response.status}: ${JSON.stringify(answer.error)}`);
  return answer.data;
}

/** Takes a video through its life, and returns what the service answered on the way. */
export async function use(baseUrl: string, token: string, category: string, film: Uint8Array<ArrayBuffer>) {
  const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });

  const created: Video = body(await client.POST("/v1/videos", { body: { title: "A film", category } }));
  const path = { videoId: created.videoId };

  const patched: Video = body(
    await client.PATCH("/v1/videos/{videoId}", {
      params: { path, header: { "If-Match": `"${created.version}"` } },
      body: { description: "Of a harbour", tags: ["sea"] },
    }),
  );

  const viewed = body(
    await client.POST("/v1/videos/{videoId}/views", { params: { path }, body: { viewerId: "tv", watchedMs: 5000 } }),
  );
  const at = Math.floor(Date.now() / 1000);
  const [queued] = body(
    await client.POST("/v1/views", { body: { views: [{ id: "a", videoId: created.videoId, at }] } }),
  ).results;
  if (queued === undefined) throw new Error("it has no result");

  const fetched = body(
    await client.GET("/v1/videos/{videoId}", { params: { path, query: { include: ["ratings", "tags"] } } }),
  );
  if (!("schemaVersion" in fetched)) throw new Error("it is not whole");
  const renditions: number = Object.keys(fetched.resolutions ?? {}).length;
  const average: number | null | undefined = fetched.included?.ratings?.average;

  const partial = body(
    await client.GET("/v1/videos/{videoId}", { params: { path, query: { fields: ["title", "status"] } } }),
  );

  const query = { userId: created.userId, category };
  const [first] = body(await client.GET("/v1/videos", { params: { query } })).items;
  if (first === undefined || !("visibility" in first)) throw new Error("it is not whole");
  const listed: { title: string; status: Video["status"] } = first;

  const text = "WEBVTT\n\n00:01.000 --> 00:02.000\nThe tide is out.\n";
  const captions = body(
    await client.PUT("/v1/videos/{videoId}/captions/{language}", {
      params: { path: { ...path, language: "en" } },
      body: { format: "vtt", text },
    }),
  );
  const rehearsed = body(
    await client.POST("/v1/videos/batch", {
      params: { query: { dryRun: true } },
      body: { operations: [{ op: "delete", videoId: created.videoId }] },
    }),
  );

  const begun = body(
    await client.POST("/v1/videos/{videoId}/upload", {
      params: { path },
      body: { contentType: "video/mp4", fileSize: film.length },
    }),
  );
  if (!("url" in begun)) throw new Error("it comes in parts");
  const place = { ...path, uploadId: begun.uploadId };
  const open = body(await client.GET("/v1/videos/{videoId}/upload/{uploadId}", { params: { path: place } }));
  if (open.state !== "open") throw new Error("it has ended");
  if (!("url" in open)) {
    const missing: string[] = open.parts.flatMap((part) => (part.url === undefined ? [] : [part.url]));
    throw new Error(`it comes in parts: ${missing}`);
  }
  const sent = await fetch(open.url, { method: open.method, headers: open.headers, body: film });
  const read = body(await client.GET("/v1/videos/{videoId}/upload/{uploadId}", { params: { path: place } }));

  return {
    videoId: created.videoId,
    description: patched.description,
    views: { viewCount: viewed.viewCount, counted: viewed.counted, reason: viewed.reason },
    queued: { id: queued.id, counted: queued.counted, reason: queued.reason },
    fetched: { title: fetched.title, viewCount: fetched.viewCount, tags: fetched.included?.tags, average, renditions },
    partial,
    listed: { title: listed.title, status: listed.status },
    captions: captions.cues,
    rehearsed: { dryRun: rehearsed.dryRun, succeeded: rehearsed.succeeded },
    sent: sent.status,
    upload: read.state,
  };
}
