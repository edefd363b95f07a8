import { field, withMeta, type ApiObject } from '../../api-object.ts';
import { invalidValue } from '../../schema/causes.ts';
import { text, texts, spec, status, withFields } from '../../fields.ts';
import type { Cause } from '../../failure.ts';
import { labelKeyProblems } from '../../selectors/label-syntax.ts';
import type { ResourceType, Strategy } from '../../resource-type.ts';
import { AGE, builtInKind } from '../built-in-kind.ts';
import { labelProblem } from '../name-problems.ts';
import { CONDITIONS, object, STRING, STRINGS } from '../schema-builders.ts';

/** Every Namespace has a label with its own name, so that selectors can match it. */
const NAME_LABEL = 'kubernetes.io/metadata.name';
/** Keeps a Namespace until its content is deleted. */
const NAMESPACE_FINALIZER = 'kubernetes';

/** Follows pkg/registry/core/namespace/strategy.go. */
const namespaceStrategy: Partial<Strategy> = {
  completeDefaults: withNameLabel,
  prepareForCreate: (namespace) => {
    const finalizers = texts(spec(namespace), 'finalizers');
    return withFields(withNameLabel(namespace), {
      spec: {
        finalizers: finalizers.includes(NAMESPACE_FINALIZER)
          ? finalizers
          : [...finalizers, NAMESPACE_FINALIZER],
      },
      status: { phase: 'Active' },
    });
  },
  // Only the `finalize` subresource changes finalizers.
  prepareForUpdate: (namespace, old) => withFields(withNameLabel(namespace), { spec: field(old, 'spec') }),
  validate: finalizerProblems,
  nameProblem: labelProblem,
};

function withNameLabel(namespace: ApiObject): ApiObject {
  const { name = '', labels } = namespace.metadata;
  if (name === '' || labels?.[NAME_LABEL] === name) return namespace;
  return withMeta(namespace, { labels: { ...labels, [NAME_LABEL]: name } });
}

function finalizerProblems(namespace: ApiObject): readonly Cause[] {
  return texts(spec(namespace), 'finalizers').flatMap((name) => [
    ...labelKeyProblems(name).map((problem) => invalidValue('spec.finalizers', name, problem)),
    ...(name.includes('/') || name === NAMESPACE_FINALIZER
      ? []
      : [
          invalidValue(
            'spec.finalizers',
            name,
            'name is neither a standard finalizer name nor is it fully qualified',
          ),
        ]),
  ]);
}

export const NAMESPACE: ResourceType = builtInKind({
  apiVersion: 'v1',
  kind: 'Namespace',
  resource: 'namespaces',
  shortNames: ['ns'],
  description: 'A room for names: objects in different namespaces may be called the same.',
  fields: {
    spec: object({ finalizers: STRINGS }),
    status: object({ phase: STRING, conditions: CONDITIONS }),
  },
  columns: [
    {
      name: 'Status',
      type: 'string',
      description: 'The status of the namespace',
      value: (namespace) => text(status(namespace), 'phase'),
    },
    AGE,
  ],
  hasStatus: true,
  verbs: ['create', 'delete', 'get', 'list', 'patch', 'update', 'watch'],
  selectableFields: { 'status.phase': (namespace) => text(status(namespace), 'phase') },
  strategy: namespaceStrategy,
});
