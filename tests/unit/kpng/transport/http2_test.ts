import assert from "node:assert/strict";
import { createClientFrameCheck, createHttp2FrameReader, type FrameHeader } from "../../../../kpng/transport/http2.ts";
import { callFrames, FLAG, frame, joined, settings, TYPE, uint32, zeros } from "../../../fakes/raw_http2.ts";
import { METHODS } from "../../../../kpng/messages/messages.ts";

function headersOf(bytes: Uint8Array, pieceBytes: number, bytesBefore = 0): FrameHeader[] {
  const headers: FrameHeader[] = [];
  const read = createHttp2FrameReader(bytesBefore, (header) => headers.push(header));
  for (let at = 0; at < bytes.length; at += pieceBytes) read(bytes.subarray(at, at + pieceBytes));
  return headers;
}

Deno.test("the header of each frame is read regardless of chunk boundaries", () => {
  const bytes = joined(
    zeros(24),
    settings(),
    frame(TYPE.data, 1, 0x80000003, zeros(300)),
    frame(TYPE.ping, 1, 0, zeros(8)),
  );
  for (const pieceBytes of [1, 2, 7, 100, 1000]) {
    assert.deepEqual(headersOf(bytes, pieceBytes, 24), [
      { length: 0, type: 4, flags: 0, stream: 0 },
      { length: 300, type: 0, flags: 1, stream: 3 },
      { length: 8, type: 6, flags: 1, stream: 0 },
    ]);
  }
});

Deno.test("the payloads of SETTINGS, WINDOW_UPDATE and GOAWAY are read regardless of chunk boundaries, up to 256 bytes", () => {
  const goaway = (...payload: readonly Uint8Array[]) => frame(TYPE.goaway, 0, 0, joined(...payload));
  const bytes = joined(
    settings(),
    goaway(uint32(7), uint32(11)),
    goaway(),
    goaway(zeros(1000)),
    frame(TYPE.ping, 0, 0, zeros(8)),
    frame(TYPE.windowUpdate, 0, 3, uint32(2)),
  );
  for (const pieceBytes of [1, 2, 7, 100, 2000]) {
    const payloads: string[] = [];
    const read = createHttp2FrameReader(
      0,
      () => {},
      ({ type }, payload) => payloads.push(`${type} ${payload.join("")}`),
    );
    for (let at = 0; at < bytes.length; at += pieceBytes) read(bytes.subarray(at, at + pieceBytes));
    assert.deepEqual(payloads, ["4 ", "7 000700011", "7 ", `7 ${"0".repeat(256)}`, "8 0002"]);
  }
});

/** The problem of the last of a client's frames; those before it must be valid. */
function problemOfLast(...frames: readonly Uint8Array[]): string | undefined {
  const problems = headersOf(joined(...frames), 1000).map(createClientFrameCheck());
  const last = problems.pop();
  assert.deepEqual(problems.filter((problem) => problem !== undefined), []);
  return last;
}

const CALL = callFrames(1, METHODS.global);

Deno.test("a client's ordinary frames are valid", () => {
  const ordinary = [
    settings(),
    CALL,
    frame(TYPE.settings, FLAG.ack, 0),
    frame(TYPE.windowUpdate, 0, 0, uint32(1)),
    frame(TYPE.windowUpdate, 0, 1, uint32(1)),
    frame(TYPE.priority, 0, 9, zeros(5)),
    frame(TYPE.ping, 0, 0, zeros(8)),
    frame(TYPE.headers, 0, 3, zeros(10)),
    frame(TYPE.continuation, 0, 3, zeros(10)),
    frame(TYPE.continuation, FLAG.endHeaders, 3, zeros(10)),
    frame(TYPE.data, FLAG.endStream, 3, zeros(5)),
    frame(TYPE.reset, 0, 3, uint32(8)),
    frame(200, 255, 7, zeros(3)),
    frame(TYPE.goaway, 0, 0, zeros(8)),
  ];
  assert.equal(problemOfLast(...ordinary), undefined);
});

Deno.test("frames without a stream, of the wrong length or at the wrong time are invalid", () => {
  const wrong: Readonly<Record<string, readonly Uint8Array[]>> = {
    "a payload that is too long": [CALL, frame(TYPE.data, 0, 1, zeros(16_385))],
    "DATA of no stream": [CALL, frame(TYPE.data, 0, 3, zeros(5))],
    "DATA without its padding": [CALL, frame(TYPE.data, 8, 1)],
    "HEADERS of no new stream": [CALL, frame(TYPE.headers, FLAG.endHeaders, 1, zeros(9))],
    "HEADERS that are too short": [frame(TYPE.headers, FLAG.endHeaders | 32, 1, zeros(4))],
    "an interrupted header block": [frame(TYPE.headers, 0, 1, zeros(4)), frame(TYPE.ping, 0, 0, zeros(8))],
    "a broken PRIORITY": [frame(TYPE.priority, 0, 0, zeros(5))],
    "a broken RST_STREAM": [CALL, frame(TYPE.reset, 0, 1, zeros(3))],
    "broken SETTINGS": [frame(TYPE.settings, FLAG.ack, 0, zeros(6))],
    "PUSH_PROMISE from a client": [CALL, frame(TYPE.pushPromise, FLAG.endHeaders, 1, zeros(4))],
    "a broken PING": [frame(TYPE.ping, 0, 1, zeros(8))],
    "a broken GOAWAY": [frame(TYPE.goaway, 0, 0, zeros(7))],
    "a broken WINDOW_UPDATE": [CALL, frame(TYPE.windowUpdate, 0, 5, uint32(1))],
    "CONTINUATION of nothing": [CALL, frame(TYPE.continuation, FLAG.endHeaders, 1, zeros(4))],
    "an acknowledged PING that was not sent": [frame(TYPE.ping, FLAG.ack, 0, zeros(8))],
  };
  for (const [problem, frames] of Object.entries(wrong)) assert.equal(problemOfLast(...frames), problem);
  assert.equal(problemOfLast(frame(TYPE.headers, FLAG.endHeaders, 2, zeros(9))), "HEADERS of no new stream");
});
