/**
 * Holes of the past, as changes of the product that open them again. The search must find each of them within its CI
 * budget: `node scripts/bypass-mutants.ts`.
 */
export interface Mutant {
  readonly name: string;
  readonly changes: readonly {
    readonly file: string;
    readonly from: string;
    readonly to: string;
  }[];
  /** The last release that shows it; absent if the newest and the sandbox do. */
  readonly until?: '1.36';
}

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'a deletionTimestamp in a new object skips its references',
    changes: [
      {
        file: 'src/admission/policy/references/check-references.ts',
        from: 'if (!isChecked) return',
        to: `if (!isChecked || (operation === 'CREATE' && 'deletionTimestamp' in (object.metadata ?? {}))) return`,
      },
    ],
    until: '1.36', // 1.37 drops the forged timestamp before validating webhooks
  },
  {
    name: 'an object that is being deleted may be changed to anything',
    changes: [
      {
        file: 'src/admission/policy/deletion/deletion.ts',
        from: 'if (isFinalizerRemoval(request)) {',
        to: 'if (request !== undefined) {',
      },
    ],
  },
  {
    name: 'a dangling reference disables every rule that reads references',
    changes: [
      {
        file: 'src/admission/policy/rules/rules.ts',
        from: 'const verdict = attempt(evaluate, rule.expression);',
        to: 'if (missing.refs.length > 0 && reads.refs.size > 0) continue; const verdict = attempt(evaluate, rule.expression);',
      },
    ],
  },
  {
    name: 'a large review is an HTTP error, which opens entries with failurePolicy Ignore',
    changes: [
      {
        file: 'src/admission/review/review.ts',
        from: 'MAX_REVIEW_BYTES = 20 * 1024 * 1024',
        to: 'MAX_REVIEW_BYTES = 8 * 1024 * 1024',
      },
      {
        file: 'src/server/admission-routes.ts',
        from: 'return sending(refuseUnread({ webhook, entry, started, ...read }, options));',
        to: `return sending({ code: 413, body: '{}' });`,
      },
    ],
  },
  {
    name: 'handlers check no updates',
    changes: [
      {
        file: 'src/admission/handlers/call-handler.ts',
        from: 'if (act === undefined || isFinalizerRemoval(call.request)',
        to: `if (act === undefined || call.request.operation === 'UPDATE'`,
      },
    ],
  },
];
