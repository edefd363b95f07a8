import {
  type CEL_TYPE,
  type CelDuration,
  type CelList,
  type CelMap,
  type CelOpaque,
  type CelOptional,
  type CelTimestamp,
  type CelTypeValue,
  type CelUint,
  charge,
  type Frame,
} from '../values/values.ts';
import { type CelType, parseType, splitTopLevel, valueTest, type ValueTest } from '../types/type.ts';

export interface CelFunction {
  readonly name: string;
  readonly member: boolean;
  readonly parameters: readonly CelType[];
  readonly result: CelType;
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

export const ANY_VALUE: ValueTest = () => true;

/** Declares an operator for the type checker only. It has no `run`, unless the caller adds one. */
export function declare(name: string, result: string, ...parameters: readonly string[]): CelFunction {
  return {
    name,
    member: false,
    parameters: parameters.map(parseType),
    result: parseType(result),
    tests: [],
    run: () => undefined,
  };
}

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

/** The signature has the form of the Kubernetes documentation, e.g. `<string>.charAt(int): string`. `cost`: default 1. */
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

/** An exact Kubernetes quantity: value × 10^scale. The smallest scale is nano; finer values are rounded up. */
export interface CelQuantity extends CelOpaque {
  readonly [CEL_TYPE]: 'kubernetes.Quantity';
  readonly value: bigint;
  readonly scale: number;
  /** The API server stores it as an int64 with a scale. Others (`1.5Gi`) do not count as integers. */
  readonly small: boolean;
  /** For a sum or difference, which the API server cannot compare on the right side: `a == b.add(c)` is an error. */
  readonly isComputed?: true;
}

/** The parts of a URL the way Go's net/url splits it. All are as written, except `host`, which is unescaped. */
export interface GoUrl {
  readonly scheme: string;
  readonly user: string;
  readonly host: string;
  readonly path: string;
  readonly query: string;
  readonly fragment: string;
}

export interface CelUrl extends CelOpaque {
  readonly [CEL_TYPE]: 'kubernetes.URL';
  readonly identity: string;
  readonly parts: GoUrl;
}

export interface CelIp extends CelOpaque {
  readonly [CEL_TYPE]: 'net.IP';
  readonly identity: bigint;
  /** As one number of 32 or 128 bits. */
  readonly bits: bigint;
  readonly family: 4 | 6;
}

/** An address and the length of its network prefix. The bits after the prefix are kept. */
export interface CelCidr extends CelOpaque {
  readonly [CEL_TYPE]: 'net.CIDR';
  readonly identity: bigint;
  readonly address: CelIp;
  readonly length: number;
}

/** A version as in https://semver.org. Drops build metadata, which does not affect comparison. */
export interface CelSemver extends CelOpaque {
  readonly [CEL_TYPE]: 'kubernetes.Semver';
  readonly identity: string;
  readonly numbers: readonly [major: bigint, minor: bigint, patch: bigint];
  readonly prerelease: readonly string[];
}

/** The problems of a text, in Kubernetes' words; empty if the text is valid. */
export type Format = (text: string) => readonly string[];

export interface CelFormat extends CelOpaque {
  readonly [CEL_TYPE]: 'kubernetes.NamedFormat';
  readonly identity: string;
  readonly format: Format;
}
