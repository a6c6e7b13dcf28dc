import assert from "node:assert/strict";
import { ipvsDeprecation } from "../../../config/mod.ts";
import { accepted, refused } from "./parse.ts";

const MODULES = {
  "/lib/modules/6.1.0/modules.dep": "kernel/net/netfilter/ipvs/ip_vs_rr.ko: kernel/net/netfilter/ipvs/ip_vs.ko\n" +
    "kernel/net/netfilter/ipvs/ip_vs_ftp.ko.xz:\nupdates/ip_vs_custom.ko.zst:\n",
  "/lib/modules/6.1.0/modules.builtin": "kernel/net/netfilter/ipvs/ip_vs_wrr.ko\n",
};
const IPVS = "--proxy-mode=ipvs";

Deno.test("an unknown IPVS scheduler is refused with the list of what the kernel has", () => {
  assert.deepEqual(refused([IPVS, "--ipvs-scheduler=wr"], { files: MODULES }), [
    '--ipvs-scheduler is "wr": must be one that the kernel has: custom, rr, wrr; did you mean rr?',
  ]);
  for (const scheduler of ["rr", "wrr", "custom"]) {
    accepted([IPVS, `--ipvs-scheduler=${scheduler}`], { files: MODULES });
  }
  // Where the kernel's modules cannot be listed, those that Linux has are known.
  accepted([IPVS, "--ipvs-scheduler=lc"]);
  assert.match(refused([IPVS, "--ipvs-scheduler=none"])[0]!, /must be one that the kernel has: dh, .*wrr/);
});

Deno.test("the scheduler matters in ipvs mode only", () => {
  accepted(["--ipvs-scheduler=none"]);
});

Deno.test("who chooses ipvs mode is told how to move on", () => {
  assert.match(ipvsDeprecation(undefined), /KEP-5495.*sluice --proxy-mode nftables/);
  assert.match(ipvsDeprecation("/etc/kp.yaml"), /sed .*1nftables\/' \/etc\/kp\.yaml$/);
});
