/** Silent clients: any frame is a sign of life, and one without any is closed. */
import assert from "node:assert/strict";
import { LIVENESS } from "../../../../kpng/transport/peers.ts";
import { METHODS } from "../../../../kpng/messages/messages.ts";
import { createFakeClock, type FakeClock } from "../../../fakes/clock.ts";
import { callFrames, connectRaw, FLAG, frame, type RawConnection, TYPE, zeros } from "../../../fakes/raw_http2.ts";
import { service } from "../../../fakes/cluster_objects.ts";
import { withServer } from "./served.ts";

const PING = frame(TYPE.ping, 0, 0, zeros(8));
const SETTINGS_ACK = frame(TYPE.settings, FLAG.ack, 0);

/** Runs a test with a watcher that has acknowledged the server's first SETTINGS. */
async function withWatcher(test: (watcher: RawConnection, clock: FakeClock) => Promise<void>): Promise<void> {
  const clock = createFakeClock();
  await withServer([service("default/web")], async ({ port }) => {
    const watcher = await connectRaw(port, callFrames(1, METHODS.global));
    await watcher.next(TYPE.settings, 0);
    await heard(watcher, SETTINGS_ACK);
    await test(watcher, clock);
    watcher.close();
  }, { clock });
}

/** Sends frames and waits until the server has read them. */
async function heard(watcher: RawConnection, ...frames: readonly Uint8Array[]): Promise<void> {
  await watcher.send(...frames, PING);
  await watcher.next(TYPE.ping, FLAG.ack);
}

Deno.test("any frame is a sign of life, even from a client that never acknowledges SETTINGS", () =>
  withWatcher(async (watcher, clock) => {
    clock.advance(LIVENESS.probeAfterMs);
    // node:http2 throws with ten unacknowledged ones.
    for (let turn = 0; turn < 12; turn++) {
      clock.advance(LIVENESS.probeAfterMs);
      await heard(watcher);
      clock.advance(LIVENESS.answerMs);
    }
  }));

Deno.test("an idle client is asked with SETTINGS, again and again", () =>
  withWatcher(async (watcher, clock) => {
    clock.advance(LIVENESS.probeAfterMs);
    for (let turn = 0; turn < 3; turn++) {
      clock.advance(LIVENESS.probeAfterMs);
      await watcher.next(TYPE.settings, 0);
      await heard(watcher, SETTINGS_ACK);
      clock.advance(LIVENESS.answerMs);
    }
  }));

Deno.test("a client that answers nothing is closed", () =>
  withWatcher(async (watcher, clock) => {
    clock.advance(2 * LIVENESS.probeAfterMs);
    clock.advance(LIVENESS.answerMs);
    const asked = (await watcher.frames()).filter(({ type }) => type === TYPE.settings);
    assert.equal(asked.length, 1);
  }));
