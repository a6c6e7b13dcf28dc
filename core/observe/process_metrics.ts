import process from "node:process";
import { Gauge, type Registry } from "prom-client";
import { counterReadAtScrape } from "./metric_kinds.ts";

/**
 * Adds what Prometheus expects of every process (`process_cpu_seconds_total`, `process_resident_memory_bytes`,
 * `process_start_time_seconds`), as far as it can be known without reading files of /proc, which prom-client's own collectors
 * do; and `process_open_fds` where the runtime lets the folder be listed that tells, as Deno 2.4 does.
 */
export function addProcessMetrics(registry: Registry): void {
  counterReadAtScrape(registry, "process_cpu_seconds_total", "CPU time used, user and system, all isolates", () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  });
  new Gauge({
    name: "process_resident_memory_bytes",
    help: "Memory in use, all isolates",
    registers: [registry],
    collect() {
      this.set(Deno.memoryUsage().rss);
    },
  });
  if (openDescriptors() !== undefined) {
    new Gauge({
      name: "process_open_fds",
      help: "Open file descriptors",
      registers: [registry],
      collect() {
        const open = openDescriptors();
        if (open !== undefined) this.set(open);
      },
    });
  }
  new Gauge({
    name: "process_start_time_seconds",
    help: "When the process started, in seconds since 1970",
    registers: [registry],
  }).set(performance.timeOrigin / 1000);
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
