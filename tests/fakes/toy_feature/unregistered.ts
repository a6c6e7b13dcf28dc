/** Declares the toy's problems where it is not registered; the registry does so for features that are. */
import type { toy } from "./feature.ts";

type Codes = typeof toy["problems"];

declare module "../../../core/problems/table.ts" {
  interface FeatureProblems extends Codes {}
}
