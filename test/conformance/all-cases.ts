import { access } from './cases/access.ts';
import { admissionPolicies } from './cases/admission-policies.ts';
import { applying } from './cases/applying.ts';
import { creating } from './cases/creating.ts';
import { customResourceDefinitions } from './cases/custom-resource-definitions.ts';
import { customResources } from './cases/custom-resources.ts';
import { deleting } from './cases/deleting.ts';
import { dryRunning } from './cases/dry-running.ts';
import { kinds } from './cases/kinds.ts';
import { patching } from './cases/patching.ts';
import { fieldValidation, protocol } from './cases/protocol.ts';
import { reading } from './cases/reading.ts';
import { tables } from './cases/tables.ts';
import { updating } from './cases/updating.ts';
import { watching } from './cases/watching.ts';
import { webhookConfigurations } from './cases/webhook-configurations.ts';
import { webhookFailures } from './cases/webhook-failures.ts';
import { webhookRules } from './cases/webhook-rules.ts';
import { webhooks } from './cases/webhooks.ts';

export const ALL_CASES = [
  ...creating,
  ...reading,
  ...watching,
  ...updating,
  ...patching,
  ...applying,
  ...dryRunning,
  ...deleting,
  ...customResources,
  ...customResourceDefinitions,
  ...kinds,
  ...tables,
  ...protocol,
  ...fieldValidation,
  ...access,
  ...webhooks,
  ...webhookRules,
  ...webhookFailures,
  ...webhookConfigurations,
  ...admissionPolicies,
];
