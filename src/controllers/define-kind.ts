/** `defineKind`: a kind of the author, from schemas that the author has. */
import { guessPlural, type ObjectMeta } from '../json/kube-object.ts';

/** The argument of `defineKind`. */
export interface KindDefinition<Spec = unknown, Status = unknown> {
  /** e.g. `people.example.com`. */
  readonly group: string;
  /** e.g. `v1`. */
  readonly version: string;
  /** e.g. `User`. */
  readonly kind: string;
  /** Default: the English plural of the kind, in lower case. */
  readonly plural?: string;
  readonly scope: 'Cluster' | 'Namespaced';
  /** JSON Schema, such as a schema of TypeBox or the result of `z.toJSONSchema` of Zod. */
  readonly spec: object;
  /** The fields that `status` of a controller sets. */
  readonly status?: object;
  /** Only for types. */
  readonly types?: { readonly spec: Spec; readonly status: Status };
}

/** Marks a definition that `defineKind` has checked. All copies of this package in a process share the symbol. */
export const KIND: unique symbol = Symbol.for('gatehouse.dev/kind');

export interface Kind<Spec = unknown, Status = unknown> extends KindDefinition<Spec, Status> {
  readonly plural: string;
  readonly [KIND]: true;
}

/** The type of the objects of a kind: `type User = ObjectOfKind<typeof user>`. */
export interface ObjectOfKind<Of extends Kind> {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta & { name: string };
  spec: NonNullable<Of['types']>['spec'];
  status?: NonNullable<Of['types']>['status'];
}

export const isKind = (value: unknown): value is Kind =>
  typeof value === 'object' && value !== null && Reflect.get(value, KIND) === true;

/** A kind whose CustomResourceDefinition `gatehouse generate crd` prints: `defineKind<Static<typeof Spec>>({…})`. */
export function defineKind<Spec, Status = Record<string, unknown>>(
  definition: KindDefinition<Spec, Status>,
): Kind<Spec, Status> {
  const texts = ['group', 'version', 'kind', 'scope'] as const;
  const schemas = ['spec', 'status'] as const;
  const problems = [
    ...texts.flatMap((field) => (typeof definition[field] === 'string' ? [] : [`${field} is not a string`])),
    ...schemas.flatMap((field) => {
      const schema: unknown = definition[field];
      const isSchema = typeof schema === 'object' && schema !== null;
      return isSchema || (field === 'status' && schema === undefined)
        ? []
        : [`${field} is not a JSON Schema`];
    }),
  ];
  if (problems.length > 0) throw new TypeError(`defineKind: ${problems.join('; ')}`);
  return Object.freeze({ plural: guessPlural(definition.kind), ...definition, [KIND]: true as const });
}
