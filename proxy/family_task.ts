import { errorText, FAMILIES, type Family, machineCores } from "../platform/mod.ts";
import type { FamilyHealth, FamilyLink } from "../core/channel/mod.ts";
import { conntrackSettings, initSettings } from "../config/mod.ts";
import { familyOptions, type ProxyOptions } from "./proxy_options.ts";

/** Something to do once in each family, with a worker that is ready, in place of running the proxy. */
interface FamilyTask {
  /** What is done, for the log: `cleaned up`. */
  readonly done: string;
  readonly setsHost: boolean;
  /** Whether there is something to be done in a family that this host cannot serve in the chosen mode. */
  readonly evenWhereUnsupported: boolean;
  run(link: FamilyLink): Promise<void>;
}

/**
 * Removes every trace of Sluice and of kube-proxy from both families, in whichever mode they were made, and nothing else.
 * Resolves with the exit status.
 */
export function runCleanup(options: ProxyOptions): Promise<number> {
  return runInFamilies({
    done: "cleaned up",
    setsHost: false,
    evenWhereUnsupported: true,
    run: (link) => link.cleanup(),
  }, options);
}

/**
 * Does what needs more rights than serving does: settings of the kernel, and a first look at tools and tables, which
 * loads the modules they need. Resolves with the exit status (kube-proxy's --init-only).
 */
export function runInit(options: ProxyOptions): Promise<number> {
  return runInFamilies({
    done: "initialized",
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
    logger.error(`not ${task.done}`, { error: errorText(error) });
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
      logger.info("nothing to do, since this host does not serve the family", { reason: health.reason });
      outcome.resolve(true);
    }
  };
  const { configuration } = options;
  const kernel = task.setsHost && family === "IPv4"
    ? [...conntrackSettings(configuration.conntrack, machineCores()), ...initSettings(configuration)]
    : [];
  const link = options.startFamily({ ...familyOptions(family, kernel, options), kernelFirst: true }, {
    onReset() {},
    onReport() {},
    onHealth,
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
