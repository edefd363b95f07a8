import type { GroupResource } from '../../json/kube-object.ts';
import type { JsonObject } from '../../json/json.ts';

/**
 * What converts the objects of one CustomResourceDefinition between its versions: a ConversionPolicy, or a handler in
 * TypeScript. It must be pure: the API server asks whenever it likes, and takes two answers to the same question for the same.
 */
export interface Converter {
  /** Who that is, in messages and metrics, e.g. `ConversionPolicy servers`. */
  readonly name: string;
  /** Whose objects. */
  readonly target: GroupResource;
  /** The names of the versions between which it converts, e.g. `v1`; undefined: it finds out itself, and throws. */
  readonly versions: readonly string[] | undefined;
  /**
   * The object in the version `to`, a name such as `v2`. The object itself stays as it is. Of the metadata only labels and
   * annotations may differ; `apiVersion` and `kind` are written by the caller.
   *
   * @param signal aborts when the API server no longer waits for the answer
   * @throws ConversionFailure with a message for the user; what else it throws is for the log
   */
  readonly convert: (object: JsonObject, to: string, signal: AbortSignal) => JsonObject | Promise<JsonObject>;
}

/** Why an object cannot be converted, and what to do about it. The message reaches the user. */
export class ConversionFailure extends Error {
  override readonly name = 'ConversionFailure';
}

/** Which objects a ConversionReview is about. */
export interface ConversionSubject {
  readonly group: string;
  readonly kind: string;
  /** The name of the CustomResourceDefinition, where the path of the request has it. */
  readonly definition: string | undefined;
}

export type ConverterLookup =
  | { readonly kind: 'found'; readonly converter: Converter }
  /** This replica cannot know yet: the API server asks again after a moment. */
  | { readonly kind: 'unready'; readonly message: string }
  /** There is none, and waiting would not help. */
  | { readonly kind: 'none'; readonly message: string };
