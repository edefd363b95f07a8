/** What an AdmissionPolicy says about restores: which checks wait, and which owner references come back. */
import { principal } from './restore-principal.ts';
import { array, boolean, object, oneOf, optional, string } from './schema.ts';

export const policyRestore = object(
  {
    references: optional(
      oneOf(['Defer', 'Enforce'], {
        description:
          'Whether a restorer may create objects whose references have no target yet, while a RestoreWindow is open.',
        default: 'Defer',
      }),
    ),
    unique: optional(
      oneOf(['Defer', 'Enforce'], {
        description:
          'Whether a restorer may create objects whose unique values another object holds, while a RestoreWindow is open.',
        default: 'Defer',
      }),
    ),
    schema: optional(
      oneOf(['Defer', 'Enforce'], {
        description: 'The same for the schema: backups may be older than it.',
        default: 'Enforce',
      }),
    ),
    rules: optional(
      oneOf(['Defer', 'Enforce'], {
        description: 'The same for rules that read nothing of the request but the object.',
        default: 'Enforce',
      }),
    ),
    onTargetDelete: optional(
      oneOf(['Defer', 'Enforce'], {
        description:
          'Whether a restorer may delete what objects still name. Absent: where the window has the operation DELETE.',
      }),
    ),
    immutable: optional(
      oneOf(['Skip', 'Enforce'], {
        description:
          'Whether a restorer may change immutable fields. That cannot be looked at again later: Skip is in the audit log only.',
        default: 'Enforce',
      }),
    ),
    mutations: optional(
      oneOf(['Apply', 'Skip'], {
        description: 'Whether mutations change what a restorer writes. Defaults, which only fill, always do.',
        default: 'Skip',
      }),
    ),
  },
  { description: 'What holds while a backup is being restored.' },
);

export const policyOwners = object(
  {
    preserve: optional(
      boolean({
        description:
          'Whether owner references are recorded in the annotation gatehouse.dev/owner-references, so that they are linked again ' +
          'when a restore has stripped them.',
        default: false,
      }),
    ),
  },
  { description: 'Owner references of the governed objects.' },
);

export const initiallyDeferred = object(
  {
    principals: array(principal, {
      description: 'Who may write an object before what it names, at any time: a GitOps controller, say.',
      minItems: 1,
      maxItems: 32,
    }),
    grace: optional(
      string({
        description:
          'How long after its creation an object may still name what is not there before that is reported. As Go writes durations.',
        pattern: '^([0-9]+(h|m|s))+$',
        default: '5m',
      }),
    ),
  },
  {
    description:
      'References that are checked later, outside restores too, as with DEFERRABLE INITIALLY DEFERRED in SQL.',
  },
);
