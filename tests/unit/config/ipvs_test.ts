import assert from "node:assert/strict";
import { ipvsDeprecation } from "../../../config/mod.ts";
import { accepted, refused } from "./parse.ts";

const MODULES = {
  "/lib/modules/6.1.0/modules.dep": "kernel/net/netfilter/ipvs/ip_vs_rr.ko: kernel/net/netfilter/ipvs/ip_vs.ko\n" +
    "kernel/net/netfilter/ipvs/ip_vs_ftp.ko.xz:\nupdates/ip_vs_custom.ko.zst:\n",
  "/lib/modules/6.1.0/modules.builtin": "kernel/net/netfilter/ipvs/ip_vs_wrr.ko\n",
};
const IPVS = "--proxy-mode=ipvs";

Deno.test("an unknown IPVS scheduler is refused with the kernel's list", () => {
  assert.deepEqual(refused([IPVS, "--ipvs-scheduler=wr"], { files: MODULES }), [
    '--ipvs-scheduler is "wr": must be a scheduler of this kernel: custom, rr, wrr; did you mean rr?',
  ]);
  for (const scheduler of ["rr", "wrr", "custom"]) {
    accepted([IPVS, `--ipvs-scheduler=${scheduler}`], { files: MODULES });
  }
  // Without module lists, the schedulers of Linux 6 are known.
  const known = ["dh", "fo", "lblc", "lblcr", "lc", "mh", "nq", "ovf", "rr", "sed", "sh", "twos", "wlc", "wrr"];
  for (const scheduler of known) accepted([IPVS, `--ipvs-scheduler=${scheduler}`]);
  assert.match(
    refused([IPVS, "--ipvs-scheduler=none"])[0]!,
    new RegExp(`must be a scheduler of this kernel: ${known.join(", ")}`),
  );
});

Deno.test("the scheduler is validated only in ipvs mode", () => {
  accepted(["--ipvs-scheduler=none"]);
});

Deno.test("the deprecation of ipvs mode comes with the command to switch to nftables", () => {
  assert.match(
    ipvsDeprecation(undefined),
    /1\.40 .*1\.43 \(KEP-5495\)\. docs\/ipvs\.md .*`sluice check --proxy-mode nftables`.*sluice --proxy-mode nftables/,
  );
  assert.match(ipvsDeprecation("/etc/kp.yaml"), /sed .*1nftables\/' \/etc\/kp\.yaml$/);
});
