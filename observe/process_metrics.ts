import { readWhenShown, type Registry } from "./exposition.ts";
import { counterReadAtScrape, gaugeReadAtScrape, metricMaker } from "./metric_kinds.ts";

/**
 * Adds what Prometheus expects of every process (`process_cpu_seconds_total`, `process_resident_memory_bytes`,
 * `process_start_time_seconds`), as far as it can be known without reading files of /proc; `process_open_fds` where the
 * runtime lets the folder be listed that tells, and `process_max_fds` where the limit is known. Returns what reads the CPU
 * time, to be awaited before a scrape.
 */
export function addProcessMetrics(registry: Registry, fileLimit: number | undefined): () => Promise<void> {
  let cpuSeconds = 0;
  counterReadAtScrape(
    registry,
    "process_cpu_seconds_total",
    "CPU time used, user and system, all isolates",
    () => cpuSeconds,
  );
  gaugeReadAtScrape(
    registry,
    "process_resident_memory_bytes",
    "Memory in use, all isolates",
    () => Deno.memoryUsage().rss,
  );
  if (openDescriptors() !== undefined) {
    readWhenShown(registry, "gauge", { name: "process_open_fds", help: "Open file descriptors", labels: [] }, () => {
      const open = openDescriptors();
      return open === undefined ? [] : [[{}, open]];
    });
  }
  if (fileLimit !== undefined) {
    metricMaker(registry, "process_").gauge("max_fds", "Limit of open file descriptors").set({}, fileLimit);
  }
  metricMaker(registry, "process_").gauge("start_time_seconds", "When the process started, in seconds since 1970").set(
    {},
    performance.timeOrigin / 1000,
  );
  return async () => {
    const { default: process } = await import("node:process");
    const { user, system } = process.cpuUsage();
    cpuSeconds = (user + system) / 1e6;
  };
}

/** How many file descriptors are open; undefined where the runtime does not let that be known. */
function openDescriptors(): number | undefined {
  try {
    // The folder itself is open while it is listed.
    return [...Deno.readDirSync("/proc/self/fd")].length - 1;
  } catch {
    return undefined;
  }
}
