/** Waits until the running proxy has everything in effect. */
import type { ServicePage } from "../../answers/mod.ts";
import type { ControlAnswers, ProxyStatus } from "../../answers/control/mod.ts";
import { errorText, sleep } from "../../platform/mod.ts";
import type { Invocation } from "./command.ts";

/** The interval of attempts, in milliseconds. */
const RETRY_MS = 250;
const MOST_BROKEN = 20;

/** The status and the first page of broken services; undefined if the proxy has not read the cluster yet. */
export interface Report {
  readonly status: ProxyStatus;
  readonly broken: ServicePage | undefined;
}

/** Options of `awaitOrder`. */
export interface AwaitOptions {
  /** The maximum wait, in milliseconds; 0 for one attempt. */
  readonly waitMs: number;
  /** Called after each attempt that found something missing; true ends the wait. */
  readonly onAttempt?: (found: Report | string) => Promise<boolean>;
}

/** Returns the first report in which everything is in effect, or the last one; or why no proxy answered. */
export async function awaitOrder(
  { clock, signal }: Pick<Invocation, "clock" | "signal">,
  path: string,
  { waitMs, onAttempt }: AwaitOptions,
): Promise<Report | string> {
  const { connectToProxy, isInOrder, NoProxyError } = await import("../../answers/control/mod.ts");
  const endMs = clock.monotonic() + waitMs;
  for (;;) {
    let found: Report | string;
    try {
      found = await readReport(await connectToProxy(path));
      if (isInOrder(found.status)) return found;
    } catch (error) {
      if (!(error instanceof NoProxyError) && waitMs === 0) throw error;
      found = errorText(error);
    }
    if (clock.monotonic() >= endMs || await onAttempt?.(found)) return found;
    await sleep(clock, RETRY_MS, signal);
  }
}

async function readReport(answers: ControlAnswers): Promise<Report> {
  const status = await answers.status();
  // The proxy may not have read the cluster yet.
  const broken = await answers.browse({ search: "", attention: true, page: 1, pageSize: MOST_BROKEN })
    .catch(() => undefined);
  return { status, broken };
}
