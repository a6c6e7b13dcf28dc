import type { FamilyHealth } from "../core/channel/mod.ts";
import type { Family, SyncReport } from "../core/model/mod.ts";
import type { Problem } from "../core/problems/mod.ts";

/** The problems of a sync. Its worker has already logged them. */
export function problemsOfSync({ family, problems }: SyncReport): readonly Problem[] {
  return problems.map(({ code, servicePort, message: detail }) => ({
    code,
    subject: servicePort === undefined ? family : `${servicePort} (${family})`,
    detail,
  }));
}

/** The problem of a family's worker, if it has one. */
export function problemsOfWorker(family: Family, health: FamilyHealth): readonly Problem[] {
  switch (health.state) {
    case "restarting":
      return [{ code: "worker-failed", subject: family, detail: health.reason }];
    case "unfit":
      return [{
        code: health.unsupported ? "family-unsupported" : "setup-failed",
        subject: family,
        detail: health.reason,
      }];
    default:
      return [];
  }
}
