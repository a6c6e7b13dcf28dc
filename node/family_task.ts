import { errorText, FAMILIES, type Family } from "../platform/mod.ts";
import { createProblemBoard } from "../core/problems/mod.ts";
import type { FamilyHealth, FamilyLink } from "../core/channel/mod.ts";
import { conntrackSettings, initSettings } from "../config/mod.ts";
import { familyOptions, type ProxyOptions } from "./proxy_options.ts";

/** A one-time task for each family, instead of running the proxy. */
interface FamilyTask {
  /** Log messages for its success and its failure. */
  readonly done: string;
  readonly failed: string;
  readonly setsHost: boolean;
  /** Whether to run it for families that this host cannot serve in the configured mode. */
  readonly evenWhereUnsupported: boolean;
  run(link: FamilyLink): Promise<void>;
}

/** Removes all rules of Sluice and kube-proxy in both families and all modes. Resolves with the exit status. */
export function runCleanup(options: ProxyOptions): Promise<number> {
  return runInFamilies({
    done: "cleaned up",
    failed: "cleanup failed",
    setsHost: false,
    evenWhereUnsupported: true,
    run: (link) => link.cleanup(),
  }, options);
}

/**
 * Does the setup that needs more privileges than serving (kube-proxy's --init-only): kernel settings, and probing tools
 * and tables, which loads kernel modules. Resolves with the exit status.
 */
export function runInit(options: ProxyOptions): Promise<number> {
  return runInFamilies({
    done: "initialized",
    failed: "initialization failed",
    setsHost: true,
    evenWhereUnsupported: false,
    run: () => Promise.resolve(),
  }, options);
}

async function runInFamilies(task: FamilyTask, options: ProxyOptions): Promise<number> {
  const successes = await Promise.all(FAMILIES.map((family) => runInFamily(family, task, options)));
  return successes.every((succeeded) => succeeded) ? 0 : 1;
}

async function runInFamily(family: Family, task: FamilyTask, options: ProxyOptions): Promise<boolean> {
  const logger = options.logger.with({ family });
  const outcome = Promise.withResolvers<boolean>();
  const fail = (error: unknown) => {
    logger.error(task.failed, { error: errorText(error) });
    outcome.resolve(false);
  };
  const run = () =>
    task.run(link).then(() => {
      logger.info(task.done);
      outcome.resolve(true);
    }, fail);
  const onHealth = (health: FamilyHealth) => {
    if (health.state === "ready") run();
    else if (health.state === "restarting") fail(health.reason);
    else if (health.state === "unfit" && !health.unsupported) fail(health.reason);
    else if (health.state === "unfit" && task.evenWhereUnsupported) run();
    else if (health.state === "unfit") {
      logger.info("nothing to do: this host cannot serve the family", { reason: health.reason });
      outcome.resolve(true);
    }
  };
  const { configuration } = options;
  const kernel = task.setsHost && family === "IPv4"
    ? [...conntrackSettings(configuration.conntrack, options.cores), ...initSettings(configuration)]
    : [];
  const link = options.startFamily({ ...familyOptions(family, kernel, options), kernelFirst: true }, {
    onReset() {},
    onReport() {},
    onHealth,
    onProblems: createProblemBoard(options.clock, logger).report,
  });
  const onAbort = () => fail(options.signal.reason);
  options.signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await outcome.promise;
  } finally {
    options.signal.removeEventListener("abort", onAbort);
    await link.stop();
  }
}
