/** CEL as kube-apiserver evaluates it: `@gatehouse-dev/gatehouse/cel`. */
export {
  compileCel,
  CelError,
  celOptional,
  type CelOptions,
  type CelPosition,
  type CelProgram,
  type CelVariables,
  type CelVariableType,
  type UsedFields,
} from './cel/cel.ts';
export { MUTATION_MESSAGES, type CelMessage, type CelMessages } from './cel/compile/compiler.ts';
export { CEL_COST_LIMIT, createCelBudget, type CelBudget } from './cel/values/values.ts';
export { celToJson } from './cel/values/cel-to-json.ts';
