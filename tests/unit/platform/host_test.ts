import assert from "node:assert/strict";
import { cpuUsage } from "node:process";
import { processCpuMs, searchPath } from "../../../platform/host.ts";

Deno.test("the CPU time is that of the whole process, in milliseconds", () => {
  const ms = () => {
    const { user, system } = cpuUsage();
    return (user + system) / 1000;
  };
  const before = ms(), found = processCpuMs(), after = ms();
  assert.ok(before <= found && found <= after, `${before} ${found} ${after}`);
});

Deno.test("an empty PATH is none: programs are then looked for where the system has them", () => {
  const before = Deno.env.get("PATH");
  try {
    Deno.env.set("PATH", "/opt/bin");
    assert.equal(searchPath(), "/opt/bin");
    Deno.env.set("PATH", "");
    assert.match(searchPath(), /^\/usr\/local\/sbin:.*:\/sbin:\/bin$/);
  } finally {
    if (before !== undefined) Deno.env.set("PATH", before);
  }
});
