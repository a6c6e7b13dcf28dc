/** Random well-formed HTTP/2 frames with invalid contents and order. */
import { METHODS } from "../../kpng/messages/messages.ts";
import type { RandomBelow } from "./random.ts";
import { callHeaders, FLAG, frame, header, TYPE, zeros } from "./raw_http2.ts";

/** Up to 40 frames of one side of a connection; a client's open streams. */
export function randomFrames(random: RandomBelow, side: "client" | "server"): Uint8Array[] {
  const some = (count: number) => new Uint8Array(count).map(() => random(256));
  let highest = side === "client" ? -1 : 1;
  const known = () => 1 + 2 * random((Math.max(1, highest) + 1) / 2);
  const block = () => {
    const good = side === "client" ? callHeaders(METHODS.global) : header(":status", "200");
    return [good, good.map((byte) => random(10) === 0 ? random(256) : byte), some(random(60)), zeros(0)][random(4)]!;
  };
  const kinds: readonly (() => Uint8Array)[] = [
    () => frame(TYPE.data, random(2), known(), some(random(50))),
    () => frame(TYPE.headers, FLAG.endHeaders | random(2), side === "client" ? highest += 2 : 1, block()),
    () => frame(TYPE.priority, 0, 1 + random(20), some(5)),
    () => frame(TYPE.reset, 0, known(), some(4)),
    () => frame(TYPE.settings, 0, 0, some(6 * random(4))),
    () => frame(TYPE.settings, FLAG.ack, 0, zeros(0)),
    () => frame(TYPE.ping, random(2), 0, some(8)),
    () => frame(TYPE.goaway, 0, 0, random(2) === 0 ? zeros(8) : some(8)),
    () => frame(TYPE.windowUpdate, 0, random(2) === 0 ? 0 : known(), some(4)),
    () => frame(10 + random(10), random(256), random(9), some(random(40))),
  ];
  return Array.from({ length: random(40) }, () => kinds[random(kinds.length)]!());
}
