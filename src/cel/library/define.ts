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
  /** Called `receiver.name(…)`; the receiver is the first parameter then. */
  readonly member: boolean;
  readonly parameters: readonly CelType[];
  readonly result: CelType;
  /** One for each parameter: whether a value may stand there. */
  readonly tests: readonly ValueTest[];
  readonly run: Run;
}

/** Gets as many values as there are parameters, and no function has more than four. @throws CelError */
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
 * A function by its signature, as the documentation of Kubernetes writes it: `<string>.charAt(int): string` is a member,
 * `lists.range(int): list<int>` is not; single capitals are type variables.
 *
 * @param run gets values of the types that the signature names
 * @param cost charged before it runs; 1 unless said otherwise
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

/** The tests guarantee the types of the signature; TypeScript cannot know that. */
type Untyped<Result> = (...parts: readonly unknown[]) => Result;

/** A function that does its own charging, because its cost depends on what it finds. */
export function defineWithFrame<Signature extends string>(
  signature: Signature,
  run: (frame: Frame, ...parts: Parts<Signature>) => unknown,
): CelFunction {
  return withRun(signature, run as Run); // as above
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
