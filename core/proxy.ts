import { FAMILIES } from "../platform/address.ts";
import { errorText } from "../platform/log.ts";
import type { FamilyHealth } from "./family_link.ts";
import { runCleanup, runInit } from "./family_task.ts";
import type { Family, SyncReport } from "./model.ts";
import type { ProxyOptions } from "./proxy_options.ts";
import { serveFamily } from "./served_family.ts";
import { openSource } from "./sources/open.ts";
import { createTracking, type NodeChange } from "./tracking/mod.ts";

/** Runs the proxy until its signal, or does once what the configuration asks for instead. Resolves with the exit status. */
export async function runProxy(options: ProxyOptions): Promise<number> {
  const { configuration, logger, clock, signal } = options;
  if (configuration.cleanup) return await runCleanup(options);
  if (configuration.initOnly) return await runInit(options);

  const { source, close } = await openSource(configuration, logger, clock);
  const onProblem = (where: string, message: string) => logger.warn(message, { object: where });
  const tracking = createTracking({
    nodeName: configuration.nodeName,
    bindAddress: configuration.bindAddress,
    clock,
    // At the end of the turn: what a source says at once is one change.
    onChange: () => queueMicrotask(applyChanges),
    onProblem,
  });
  const listener = {
    onChange(_family: Family) {},
    onReport(_report: SyncReport, _triggerTimesMs: readonly number[]) {},
    onHealth(family: Family, state: FamilyHealth) {
      logger.info("family", { family, ...state });
    },
    onProblem,
  };
  const families = FAMILIES.map((family) => serveFamily(family, tracking, options, listener));
  let started = false;

  function applyChanges(): void {
    const changes = tracking.take();
    if (changes.node) noteNode(changes.node);
    for (const family of families) {
      if (changes.node || !started) family.configure(tracking.node.state());
      family.apply(changes);
      if (!started) family.start();
    }
    started = true;
  }

  function noteNode({ after, changed }: NodeChange): void {
    if (changed.includes("deleted") && after.deleted) logger.error("this node's Node object was deleted");
    logger.info("this node has changed", { changed: changed.join(), ...after.nodeIPs, zone: after.zone });
  }

  try {
    await source.run(tracking, signal);
    return 0;
  } catch (error) {
    if (signal.aborted) return 0;
    logger.error("the source cannot be read", { error: errorText(error) });
    return 1;
  } finally {
    close();
    await Promise.all(families.map((family) => family.stop()));
  }
}
