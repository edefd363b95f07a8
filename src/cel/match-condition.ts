import { CelError } from './cel-error.ts';
import { compileCel, type CelProgram, type CelVariableType } from './cel.ts';

const GROUP_VERSION = { group: 'string', version: 'string' };
const KIND = { fields: { ...GROUP_VERSION, kind: 'string' } };
const RESOURCE = { fields: { ...GROUP_VERSION, resource: 'string' } };

/** The variables of expressions about a request (k8s.io/apiserver/pkg/admission/plugin/cel/compile.go). */
export const ADMISSION_VARIABLES: Readonly<Record<string, CelVariableType>> = {
  object: 'dyn',
  oldObject: 'dyn',
  request: {
    fields: {
      kind: KIND,
      resource: RESOURCE,
      subResource: 'string',
      requestKind: KIND,
      requestResource: RESOURCE,
      requestSubResource: 'string',
      name: 'string',
      namespace: 'string',
      operation: 'string',
      userInfo: {
        fields: {
          username: 'string',
          uid: 'string',
          groups: 'list<string>',
          extra: 'map<string, list<string>>',
        },
      },
      dryRun: 'bool',
      options: 'dyn',
    },
  },
  authorizer: 'authorizer',
  'authorizer.requestResource': 'resourceCheck',
};

/** The type of `namespaceObject`, which match conditions do not see. */
export const NAMESPACE_OBJECT: CelVariableType = {
  fields: {
    metadata: {
      fields: {
        name: 'string',
        generateName: 'string',
        namespace: 'string',
        uid: 'string',
        labels: 'map<string, string>',
        annotations: 'map<string, string>',
        finalizers: 'list<string>',
        creationTimestamp: 'dyn',
        deletionTimestamp: 'dyn',
        resourceVersion: 'string',
        deletionGracePeriodSeconds: 'int',
        generation: 'int',
      },
    },
    spec: { fields: { finalizers: 'list<string>' } },
    status: { fields: { phase: 'string' } },
  },
};

/** Like the API server, refuses a result of type `dyn`. @throws CelError */
export function compileMatchCondition(expression: string, unconverted = false): CelProgram {
  const program = compileCel(expression, ADMISSION_VARIABLES, { uniformLiterals: true, unconverted });
  if (program.type !== 'bool') throw new CelError(`must evaluate to bool but got ${program.type}`);
  return program;
}

/** Whether the condition asks the authorizer, which only the API server has. */
export const asksAuthorizer = ({ names }: CelProgram): boolean => names.has('authorizer');
