import { type CelType, DYN, type ObjectField, STRING } from '../types/type.ts';

/** The type of a message, by the name in the expression; undefined if there is none. */
export type CelMessages = (name: string) => CelMessage | undefined;

export interface CelMessage {
  readonly type: CelType;
  /** Undefined: every field exists, and its type is dyn. */
  readonly fields: ReadonlyMap<string, ObjectField> | undefined;
}

export const NO_MESSAGES: CelMessages = () => undefined;

const JSON_PATCH: CelMessage = {
  type: { kind: 'named', name: 'JSONPatch' },
  fields: new Map(
    Object.entries({ op: STRING, path: STRING, from: STRING, value: DYN }).map(([property, type]) => [
      property,
      { property, type },
    ]),
  ),
};

/**
 * The messages in mutations of a MutatingAdmissionPolicy: `JSONPatch`, and `Object` with its parts such as
 * `Object.spec.containers`.
 *
 * @see k8s.io/apiserver/pkg/cel/mutation
 */
export const MUTATION_MESSAGES: CelMessages = (name) => {
  if (name === 'JSONPatch') return JSON_PATCH;
  if (name !== 'Object' && !name.startsWith('Object.')) return undefined;
  return { type: { kind: 'object', name, fields: new Map(), open: true }, fields: undefined };
};
