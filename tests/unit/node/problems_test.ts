/** Problems of workers and of the process, in every place that shows the problems of a proxy. */
import assert from "node:assert/strict";
import { createProcessProblems } from "../../../core/problems/mod.ts";
import { systemClock } from "../../../platform/clock.ts";
import { createLogger } from "../../../platform/log.ts";
import { withManifests, withWholeProxy } from "../../fakes/whole_proxy.ts";

const SETTING = "net.ipv4.ip_forward";

Deno.test("problems of a worker and of the process are logged, counted and shown while they last", async () => {
  const lines: string[] = [];
  const logger = createLogger({
    level: "warn",
    format: "text",
    clock: systemClock,
    write: (line) => lines.push(line.slice(25)),
  });
  const processProblems = createProcessProblems();
  processProblems.report("configuration", [{ code: "configuration-invalid", subject: "kp.yaml", detail: "line 5" }]);
  await withManifests(
    "",
    ({ args }) =>
      withWholeProxy({ args, logger, processProblems }, async ({ url, problems, report, health, hold }) => {
        // A late report of the first sync would end the problem of a failed one.
        hold("IPv4");
        const text = async (path: string) => await (await fetch(url + path)).text();
        problems("IPv4", `setting ${SETTING}`, [{
          code: "kernel-setting-failed",
          subject: SETTING,
          detail: "read-only",
        }]);
        const count = (code: string, severity: string) => `sluice_problem{code="${code}",severity="${severity}"}`;
        const metrics = await text("metrics");
        assert.ok(metrics.includes(`${count("kernel-setting-failed", "warning")} 1`));
        assert.ok(metrics.includes(`${count("configuration-invalid", "error")} 1`));
        assert.match(await text(""), /kernel setting cannot be read or set[^]*read-only/);
        assert.match(lines.join(""), /ERROR the configuration is invalid.*subject=kp\.yaml/);
        assert.match(lines.join(""), /WARN {2}a kernel setting cannot.*subject=net\.ipv4\.ip_forward detail=read-only/);
        const before = lines.length;
        report("IPv4", { ok: false, problems: [{ code: "sync-failed", servicePort: undefined, message: "locked" }] });
        health("IPv4", { state: "restarting", reason: "it has ended", restarts: 1 });
        for (const code of ["sync-failed", "worker-failed"]) {
          assert.ok((await text("metrics")).includes(`${count(code, "error")} 1`));
        }
        assert.equal(lines.length, before, "workers and their supervision have logged these");
        problems("IPv4", `setting ${SETTING}`, []);
        processProblems.report("configuration", []);
        const solved = await text("metrics");
        assert.ok(!solved.includes(`${count("kernel-setting-failed", "warning")} 1`));
        assert.ok(!solved.includes(`${count("configuration-invalid", "error")} 1`));
      }),
  );
});
