import { splitApiVersion, type GroupResource } from '../../json/kube-object.ts';
import { textIn, type JsonObject } from '../../json/json.ts';

/** Pure, because the API server expects equal results for equal input at any time. */
export interface Converter {
  readonly name: string;
  readonly target: GroupResource;
  /** The versions between which it converts, e.g. `v1`. Undefined: `convert` checks the version and throws. */
  readonly versions: readonly string[] | undefined;
  /** Does not change `object`. The caller keeps the object's identity. @throws ConversionFailure with a message for users */
  readonly convert: (object: JsonObject, to: string, signal: AbortSignal) => JsonObject | Promise<JsonObject>;
}

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
  /** There is no converter, and a retry would not help. */
  | { readonly kind: 'none'; readonly message: string };

export const versionOf = (object: JsonObject): string =>
  splitApiVersion(textIn(object, 'apiVersion')).version;

/** Why a ConversionPolicy does not convert, as the reason of its `Ready` condition. The most severe reason is first. */
export const CONVERSION_REASONS = [
  'InvalidPath',
  'InvalidExpression',
  'InvalidPolicy',
  'UnknownField',
  /** A field with the same name but a different type in two versions. */
  'TypeChange',
  /** The CustomResourceDefinition lacks a version of the policy. */
  'UnknownVersion',
  /** The CustomResourceDefinition serves or stores a version without steps. */
  'MissingVersion',
] as const;

export type Report = (reason: ConversionProblem['reason'], where: string, message: string) => void;

export interface ConversionProblem {
  readonly reason: (typeof CONVERSION_REASONS)[number];
  /** e.g. `spec.versions[0].toHub[1].move.from` */
  readonly where: string;
  readonly message: string;
}
