import { readWhenShown, type Registry } from "./exposition.ts";
import { counterReadAtScrape, gaugeReadAtScrape, metricMaker } from "./metric_kinds.ts";

/**
 * Registers the metrics that Prometheus expects of every process: `process_cpu_seconds_total`,
 * `process_resident_memory_bytes` and `process_start_time_seconds`; `process_open_fds` if the runtime permits listing
 * /proc/self/fd, and `process_max_fds` if the limit is known. Returns a function that reads the CPU time, to be awaited
 * before a scrape.
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

/** The number of open file descriptors; undefined if the runtime does not permit reading it. */
function openDescriptors(): number | undefined {
  try {
    // Listing the folder takes one descriptor itself.
    return [...Deno.readDirSync("/proc/self/fd")].length - 1;
  } catch {
    return undefined;
  }
}
