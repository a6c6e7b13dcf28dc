import assert from "node:assert/strict";
import { documentInEffect, flagTexts } from "../../../config/mod.ts";
import { parse } from "./parse.ts";

/** The answers of a kube-proxy 1.37.2 with these arguments at `/configz` and `/flagz`. */
interface Pages {
  readonly arguments: readonly string[];
  /** The text of `c.yaml`. */
  readonly file?: string;
  readonly configz: Readonly<Record<string, unknown>>;
  readonly flagz?: Readonly<Record<string, string>>;
}

const PAGES: readonly Pages[] = JSON.parse(
  Deno.readTextFileSync(new URL("../../fixtures/kubernetes/kube_proxy_pages.json", import.meta.url)),
);

/** Sections and settings that kube-proxy does not have. */
const OWN = ["userspace", "balance", "site", "traffic", "failover", "canary", "nodeCondition"];
/** 0s stands for the adaptive period, which kube-proxy does not have. */
const ADAPTIVE = { minSyncPeriod: "0s" };
const PERIODS = ["iptables-min-sync-period", "ipvs-min-sync-period"];

for (const { arguments: args, file, configz, flagz } of PAGES) {
  const line = parse([...args, "--logging-format=text"], { files: { "c.yaml": file ?? "" } });
  assert(line.kind === "start");
  const { configuration, flags } = line;

  Deno.test(`/configz is kube-proxy's with ${args.join(" ")}`, () => {
    const shown = JSON.parse(JSON.stringify(documentInEffect(configuration)));
    for (const name of OWN) delete shown[name];
    const { section } = configuration.modeDescription.settings;
    const period = file === undefined ? ADAPTIVE : {};
    assert.deepEqual(shown, { ...configz, [section]: { ...configz[section] as object, ...period } });
  });

  if (flagz === undefined) continue;
  Deno.test(`/flagz has kube-proxy's flags and values with ${args.join(" ")}`, () => {
    const shown = flagTexts(flags, configuration);
    // kube-proxy expands the keywords of this flag to prefixes.
    const { "nodeport-addresses": _, ...expected } = flagz;
    for (const [name, value] of Object.entries(expected)) {
      assert.equal(shown[name], PERIODS.includes(name) ? "0s" : value, name);
    }
  });
}
