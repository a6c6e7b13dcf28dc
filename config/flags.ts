import { type ScalarField, type SwitchesField, text, type TextsField } from "./fields.ts";
import type { SettingPath } from "./kube_proxy_configuration.ts";

/** One flag of the command line. */
export interface Flag {
  readonly name: string;
  /** Its one letter, where it has one: `v` for `-v 2`. */
  readonly letter?: string;
  /** How its value is read. */
  readonly field: ScalarField | TextsField | SwitchesField;
  readonly description: string;
  /** The setting that it sets, which can depend on the proxy mode that was asked for. */
  readonly setting?: (mode: string) => SettingPath;
  /** Whether it counts beside `--config`, where kube-proxy ignores what the file can say. */
  readonly besideConfig: boolean;
  /** Whether it does anything here; kube-proxy's others are accepted with a warning. */
  readonly effective: boolean;
  /** The words that it takes, where they are known beforehand. */
  readonly values?: readonly string[];
}

/** Flags that belong together in a list of them. */
export interface FlagGroup {
  readonly title: string;
  readonly flags: readonly Flag[];
}

/** A flag that takes one of a few words; the first of them where it is not given. */
export interface ChoiceFlag<C extends string> extends Flag {
  readonly values: readonly [C, ...C[]];
}

type FlagField = Flag["field"];

/** A flag that only the command line has. */
export function option(name: string, field: FlagField, description: string, letter?: string): Flag {
  return { name, letter, field, description, besideConfig: true, effective: true };
}

/** A flag that only the command line has, and that takes one of these words. */
export function choice<C extends string>(
  name: string,
  values: readonly [C, ...C[]],
  description: string,
  letter?: string,
): ChoiceFlag<C> {
  return { ...option(name, text(values[0]), description, letter), values };
}
