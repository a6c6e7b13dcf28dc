/** Queries to a running Sluice: the answers match the kernel, and only root may ask. */
import assert from "node:assert/strict";
import { NETWORK } from "../../demo/lab.ts";
import { program, startSluice } from "../../demo/sluice.ts";
import { systemClock } from "../../platform/clock.ts";
import { waitFor } from "../chaos/wait.ts";
import { inLab } from "./in_lab.ts";

const EXAMPLE = new URL("../../deploy/example/", import.meta.url).pathname;
const SOCKET = "/run/sluice/control.sock";
const NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];

Deno.test("explain and diff of a running proxy match the kernel, and only root may connect to the control socket", () =>
  inLab(async (lab) => {
    const sluice = startSluice(lab, EXAMPLE, systemClock);
    const ask = (...words: readonly string[]) => lab.run("node", [...program(), ...words]);
    const rules = (...words: readonly string[]) => lab.run("node", ["iptables", "-w", "-t", "nat", ...words]);
    try {
      await sluice.ready();
      const explained = async () => JSON.parse(await ask("explain", "10.96.0.20:80", "-o", "json"));
      let explanation = await explained();
      // Services answer before the report of the sync has arrived.
      const isReported = async () => (explanation = await explained()).service.rules.since.state !== "waiting";
      await waitFor("the sync is reported", 10_000, isReported, 50);
      assert.equal(explanation.service.name, "default/shop:http");
      assert.deepEqual(explanation.node.name, NETWORK.nodeName);
      const { from, since, parts } = explanation.service.rules;
      assert.deepEqual([from, since.state, since.revision], ["running proxy", "in effect", 1]);
      for (const { place, lines } of parts) {
        const [table, chain] = [place.split(" ")[0], place.split(" ").at(-1)];
        const held = await lab.run("node", ["iptables", "-w", "-t", table, "-S", chain]);
        for (const line of lines) assert.ok(held.includes(`-A ${chain} ${line}`), `${line} in\n${held}`);
      }

      assert.equal(await ask("diff"), "");
      const chain = parts.at(-1).place.split(" ").at(-1);
      await rules("-F", chain);
      const differences = await lab.run("node", ["sh", "-c", '"$@" || echo "status $?"', "sh", ...program(), "diff"]);
      assert.match(differences, new RegExp(`^IPv4 nat ${chain} differs\n( {2}\\+ .*\n)+status 1\n$`));
      const state = await rules("-S", chain);
      assert.equal(state.trim(), `-N ${chain}`, "diff must not repair");

      await lab.run("node", ["test", "-w", SOCKET]);
      await assert.rejects(lab.run("node", [...NOBODY, "test", "-e", SOCKET]));
      await lab.run("node", ["chmod", "755", "/run/sluice"]);
      await lab.run("node", [...NOBODY, "test", "-e", SOCKET]);
      await assert.rejects(lab.run("node", [...NOBODY, "test", "-w", SOCKET]));
    } finally {
      await sluice.stop();
    }
  }));
