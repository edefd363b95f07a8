import { splitApiVersion, type GroupResource } from '../../json/kube-object.ts';
import { textIn, type JsonObject } from '../../json/json.ts';

/** Pure: the API server converts at any time and expects equal results for equal input. */
export interface Converter {
  /** The name in messages and metrics, e.g. `ConversionPolicy servers`. */
  readonly name: string;
  readonly target: GroupResource;
  /** The versions between which it converts, e.g. `v1`. Undefined: `convert` checks the version and throws. */
  readonly versions: readonly string[] | undefined;
  /**
   * Does not change `object`. The caller writes `apiVersion`, `kind` and all metadata except labels and annotations.
   * @throws ConversionFailure with a message for the user; other errors are for the log
   */
  readonly convert: (object: JsonObject, to: string, signal: AbortSignal) => JsonObject | Promise<JsonObject>;
}

/** Why an object cannot be converted, and what to do about it. The message reaches the user. */
export class ConversionFailure extends Error {
  override readonly name = 'ConversionFailure';
}

export interface ConversionSubject {
  readonly group: string;
  readonly kind: string;
  /** The name of the CustomResourceDefinition, if the request path contains it. */
  readonly definition: string | undefined;
}

export type ConverterLookup =
  | { readonly kind: 'found'; readonly converter: Converter }
  /** This replica does not know yet. The API server retries after a moment. */
  | { readonly kind: 'unready'; readonly message: string }
  /** No converter exists, and a retry would not help. */
  | { readonly kind: 'none'; readonly message: string };

/** e.g. `v1` */
export const versionOf = (object: JsonObject): string =>
  splitApiVersion(textIn(object, 'apiVersion')).version;

/** Why a ConversionPolicy does not convert, as the reason of its `Ready` condition. The most severe reason is first. */
export const CONVERSION_REASONS = [
  'InvalidPath',
  'InvalidExpression',
  'InvalidPolicy',
  /** A path that the schema does not have. */
  'UnknownField',
  /** A field with the same name but a different type in two versions. */
  'TypeChange',
  /** The CustomResourceDefinition has no such version (yet). */
  'UnknownVersion',
  /** The CustomResourceDefinition serves or stores a version that has no steps (yet). */
  'MissingVersion',
] as const;

export type ConversionReason = (typeof CONVERSION_REASONS)[number];

export interface ConversionProblem {
  readonly reason: ConversionReason;
  /** e.g. `spec.versions[0].toHub[1].move.from` */
  readonly where: string;
  readonly message: string;
}
