/** The events of a leader's link, as the feed of a site takes them. */
import assert from "node:assert/strict";
import type { LinkEvent, ReportLink, Source } from "../../../../core/objects/mod.ts";
import { createFeed } from "../../../../features/site/feed.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { until } from "../../../fakes/wait.ts";

const LEADER = { node: "node-2", address: "10.0.0.2:12090", certificate: "", proof: "" };

for (const [type, seen] of [["answered", "followed"], ["received", "followed"], ["failed", "lost"]] as const) {
  Deno.test(`a link of the leader that has ${type} means that it is ${seen}`, async () => {
    const end = new AbortController(), events: string[] = [];
    let link: ReportLink | undefined;
    const source: Source = { run: () => new Promise(() => {}) };
    const feed = createFeed({
      sink: { set() {}, delete() {}, reset() {}, synced() {}, problems() {} },
      openApi: () => assert.fail("the API server is not watched"),
      openLeader(_leader, onLink) {
        link = onLink;
        return Promise.resolve(source);
      },
      patienceMs: () => 10_000,
      onLost: () => events.push("lost"),
      onFollowed: () => events.push("followed"),
      onFrom: () => {},
      onLink: () => {},
      clock: createFakeClock(),
      logger: silentLogger,
      signal: end.signal,
    });
    feed.enter({ kind: "follower", leader: LEADER, isConfirmed: true });
    await until(() => link !== undefined);
    const event: LinkEvent = type === "failed" ? { type, error: "refused", retryInMs: 1_000 } : { type };
    link!("services", LEADER.address, event);
    assert.deepEqual([events, feed.from()], [[seen], seen === "followed" ? "leader" : undefined]);
    end.abort();
    await feed.ended;
  });
}
