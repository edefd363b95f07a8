import { charge, type Frame } from '../frame.ts';
import type { CelType } from '../types/type.ts';
import { parseType, splitTopLevel } from '../types/type-name.ts';
import { valueTest, type ValueTest } from '../types/value-test.ts';
import type {
  CelDuration,
  CelList,
  CelMap,
  CelOptional,
  CelTimestamp,
  CelTypeValue,
  CelUint,
} from '../values/values.ts';
import type { CelCidr, CelFormat, CelIp, CelQuantity, CelSemver, CelUrl } from './opaque-values.ts';

/** One overload of a function of CEL. */
export interface CelFunction {
  readonly name: string;
  /** Called as `receiver.name(…)`: the receiver is the first parameter. */
  readonly member: boolean;
  readonly parameters: readonly CelType[];
  readonly result: CelType;
  /** For each parameter, whether it accepts a value. */
  readonly tests: readonly ValueTest[];
  readonly run: Run;
  /** The minor version of the first API server that accepts it and answers as here; default: all supported ones. */
  readonly since?: number;
}

/** Receives one value per parameter. No function has more than four. @throws CelError */
export type Run = (
  frame: Frame,
  first?: unknown,
  second?: unknown,
  third?: unknown,
  fourth?: unknown,
) => unknown;

interface Values {
  bool: boolean;
  int: bigint;
  uint: CelUint;
  double: number;
  string: string;
  bytes: Uint8Array;
  timestamp: CelTimestamp;
  duration: CelDuration;
  type: CelTypeValue;
  list: CelList;
  map: CelMap;
  quantity: CelQuantity;
  url: CelUrl;
  ip: CelIp;
  cidr: CelCidr;
  semver: CelSemver;
  format: CelFormat;
}

/** The JavaScript type of a value of the CEL type with that name. */
type ValueOf<Name extends string> = Name extends keyof Values
  ? Values[Name]
  : Name extends `list<${string}>`
    ? CelList
    : Name extends `optional<${string}>`
      ? CelOptional
      : unknown;

type ValuesOf<Names extends string> = Names extends ''
  ? []
  : Names extends `${infer First}, ${infer Rest}`
    ? [ValueOf<First>, ...ValuesOf<Rest>]
    : [ValueOf<Names>];

type Parts<Signature extends string> =
  Signature extends `<${infer Receiver}>.${string}(${infer Names}): ${string}`
    ? [ValueOf<Receiver>, ...ValuesOf<Names>]
    : Signature extends `${string}(${infer Names}): ${string}`
      ? ValuesOf<Names>
      : never;

const SIGNATURE = /^(?:<(.+)>\.)?([\w.]+)\((.*)\): (.+)$/;

/**
 * Defines a function by a signature in the notation of the Kubernetes documentation. `<string>.charAt(int): string` is
 * a member, `lists.range(int): list<int>` is not. Single capitals are type variables.
 *
 * @param run receives values of the types in the signature
 * @param cost charged before the function runs; default 1
 */
export function define<Signature extends string>(
  signature: Signature,
  run: (...parts: Parts<Signature>) => unknown,
  cost: (...parts: Parts<Signature>) => number = () => 1,
): CelFunction {
  const [plainRun, plainCost] = [run as Untyped<unknown>, cost as Untyped<number>];
  return withRun(signature, (frame, first, second, third, fourth) => {
    charge(frame, plainCost(first, second, third, fourth));
    return plainRun(first, second, third, fourth);
  });
}

/** The value tests guarantee the types of the signature, which TypeScript cannot know. */
type Untyped<Result> = (...parts: readonly unknown[]) => Result;

/** Defines a function that charges its own cost, because the cost depends on the values. */
export function defineWithFrame<Signature extends string>(
  signature: Signature,
  run: (frame: Frame, ...parts: Parts<Signature>) => unknown,
): CelFunction {
  return withRun(signature, run as Run); // the value tests guarantee the types
}

function withRun(signature: string, run: Run): CelFunction {
  const [, receiver, name = '', names = '', result = ''] = SIGNATURE.exec(signature) ?? [];
  const parameters = [...(receiver === undefined ? [] : [receiver]), ...splitTopLevel(names)].map(parseType);
  return {
    name,
    member: receiver !== undefined,
    parameters,
    result: parseType(result),
    tests: parameters.map(valueTest),
    run,
  };
}
