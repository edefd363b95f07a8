import { splitApiVersion, type GroupResource } from '../../json/kube-object.ts';
import { textIn, type JsonObject } from '../../json/json.ts';

/**
 * Converts the objects of one CustomResourceDefinition between its versions: a ConversionPolicy or a TypeScript
 * handler. A converter must be pure: the API server converts at any time and expects equal results for equal input.
 */
export interface Converter {
  /** The name in messages and metrics, e.g. `ConversionPolicy servers`. */
  readonly name: string;
  /** The resource whose objects it converts. */
  readonly target: GroupResource;
  /** The versions between which it converts, e.g. `v1`. Undefined: `convert` checks the version and throws. */
  readonly versions: readonly string[] | undefined;
  /**
   * Returns the object in the version `to`, e.g. `v2`. Does not change `object`. In the metadata, only labels and
   * annotations may differ. The caller writes `apiVersion` and `kind`.
   *
   * @param signal aborts when the API server no longer waits for the response
   * @throws ConversionFailure with a message for the user; other errors are for the log
   */
  readonly convert: (object: JsonObject, to: string, signal: AbortSignal) => JsonObject | Promise<JsonObject>;
}

/** Why an object cannot be converted, and what to do about it. The message reaches the user. */
export class ConversionFailure extends Error {
  override readonly name = 'ConversionFailure';
}

/** The objects that a ConversionReview asks to convert. */
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
  /**
   * A path that the schema does not have: the step would do nothing, or the API server would drop the written value.
   */
  'UnknownField',
  /** A field with the same name but a different type in two versions. */
  'TypeChange',
  /** The CustomResourceDefinition has no such version (yet). */
  'UnknownVersion',
  /** The CustomResourceDefinition serves or stores a version that has no steps (yet). */
  'MissingVersion',
] as const;

export type ConversionReason = (typeof CONVERSION_REASONS)[number];

/** One thing that is wrong with a ConversionPolicy. */
export interface ConversionProblem {
  readonly reason: ConversionReason;
  /** e.g. `spec.versions[0].toHub[1].move.from` */
  readonly where: string;
  /** What is wrong, and what to write instead. */
  readonly message: string;
}
