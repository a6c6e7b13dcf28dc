/** Answers of a running proxy; loaded with the first query. */
import type { Family } from "../platform/mod.ts";
import { addressesOfHost, createAnswers, type FamilyBasis, NotReadyError } from "../answers/mod.ts";
import { balanceOptions } from "../config/mod.ts";
import type { ControlAnswers } from "../answers/control/mod.ts";
import { viewOf } from "../answers/status/mod.ts";
import { type RunningProxy, statusOf } from "./running_status.ts";

/** Creates the answers of a running proxy. All but the status throw NotReadyError until the source has synced. */
export function answersOfProxy(proxy: RunningProxy): ControlAnswers {
  const { configuration: { nodeName, modeDescription: mode }, tracking, families, features } = proxy;
  const traffic = features.counts();
  const bases = Object.fromEntries(families.map(({ family, basis }) => [family, basis])) as Record<Family, FamilyBasis>;
  const answers = createAnswers({
    nodeName,
    mode,
    tracking,
    families: bases,
    balance: balanceOptions(proxy.configuration),
    rulesFrom: "running proxy",
    ...(traffic && { traffic }),
    hostAddresses: addressesOfHost,
  });
  const whenReady = async <T>(ask: () => Promise<T>): Promise<T> => {
    if (!tracking.ready()) {
      throw new NotReadyError("the proxy has not finished reading the cluster; sluice status says why");
    }
    return await ask();
  };
  const withTraffic = <T>(ask: () => Promise<T>): Promise<T> =>
    whenReady(async () => {
      await traffic?.refresh();
      return await ask();
    });
  return {
    explain: (question) => whenReady(() => answers.explain(question)),
    resolve: (name, from) => whenReady(() => answers.resolve(name, from)),
    services: (search) => withTraffic(() => answers.services(search)),
    endpoints: (search) => withTraffic(() => answers.endpoints(search)),
    browse: (question) => withTraffic(() => answers.browse(question)),
    state: (family) => whenReady(() => answers.state(family)),
    status: () => Promise.resolve(viewOf(statusOf(proxy))),
    events: (since) => Promise.resolve(proxy.feed.read(since)),
  };
}
