import assert from "node:assert/strict";
import { FLAG_GROUPS, flagTexts } from "../../../config/mod.ts";
import { parse } from "./parse.ts";

Deno.test("every flag is formatted with its value or default as in pflag", () => {
  const line = parse([
    "--feature-gates=B=true,A=false",
    "--nodeport-addresses=10.0.0.0/8,fd00::/64",
    "--iptables-sync-period=90s",
    "--masquerade-all",
  ]);
  assert(line.kind === "start");
  const texts = flagTexts(line.flags, line.configuration);
  const names = FLAG_GROUPS.flatMap(({ flags }) => flags.map(({ name }) => name));
  assert.deepEqual(Object.keys(texts), [...names, "help", "version"].sort());
  const some = ["feature-gates", "nodeport-addresses", "iptables-sync-period", "masquerade-all", "conntrack-min"];
  assert.deepEqual(some.map((name) => texts[name]), [
    "A=false,B=true",
    "[10.0.0.0/8,fd00::/64]",
    "1m30s",
    "true",
    "131072",
  ]);
  assert.deepEqual([texts["ipvs-exclude-cidrs"], texts["ipvs-udp-timeout"], texts["config"]], ["[]", "0s", ""]);
});
