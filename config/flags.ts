import { type ScalarField, type SwitchesField, text, type TextsField } from "./fields.ts";
import type { SettingPath } from "./kube_proxy_configuration.ts";

/** A command-line flag. */
export interface Flag {
  readonly name: string;
  /** Its one-letter form: `v` for `-v 2`. */
  readonly letter?: string;
  /** The type of its value. */
  readonly field: ScalarField | TextsField | SwitchesField;
  readonly description: string;
  /** The setting that it sets, which can depend on the proxy mode. */
  readonly setting?: (mode: string) => SettingPath;
  /** Whether it applies together with `--config`, where kube-proxy ignores most flags. */
  readonly besideConfig: boolean;
  /** Whether it has an effect; others of kube-proxy's flags are accepted with a warning. */
  readonly effective: boolean;
  /** The allowed values, if the flag is an enumeration. */
  readonly values?: readonly string[];
  /** Values that a shell completes; others are allowed too. */
  readonly suggestions?: readonly string[];
}

/** A titled group of flags. */
export interface FlagGroup {
  readonly title: string;
  readonly flags: readonly Flag[];
}

/** An enumeration flag; the first value is the default. */
export interface ChoiceFlag<C extends string> extends Flag {
  readonly values: readonly [C, ...C[]];
}

type FlagField = Flag["field"];

/** A flag without a setting in the configuration file. */
export function option(name: string, field: FlagField, description: string, letter?: string): Flag {
  return { name, letter, field, description, besideConfig: true, effective: true };
}

/** An enumeration flag without a setting in the configuration file. */
export function choice<C extends string>(
  name: string,
  values: readonly [C, ...C[]],
  description: string,
  letter?: string,
): ChoiceFlag<C> {
  return { ...option(name, text(values[0]), description, letter), values };
}

/** Whether a flag may be given without a value, which then means true. */
export function takesNoValue(flag: Flag): boolean {
  return flag.field.kind === "boolean";
}
