import { duration, section, text } from "../../../platform/schema/mod.ts";
import { feature } from "../../../features/contract.ts";

/** A feature, as someone would add one: a folder and a line in the registry. It greets each family. */
export const toy = feature({
  name: "toy",
  fields: { toy: section({ greeting: text(), period: duration(1_000) }) },
  flags: {
    "toy-greeting": ["toy.greeting", "Greet each family."],
  },
  problems: {
    "toy-unfriendly": {
      severity: "warning",
      about: "IP family",
      title: "the toy is unfriendly",
      fix: "choose another greeting",
    },
  },
  check({ toy }, _mode, report) {
    if (toy.periodMs < 10) report.invalid("toy.period", toy.periodMs, "must be 10ms or longer");
  },
  isOn: ({ toy }) => toy.greeting !== "",
  load: () => import("./start.ts"),
});
