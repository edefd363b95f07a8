// Messages follow k8s.io/apimachinery/pkg/util/validation.

const LABEL_1035 = /^[a-z](?:[-a-z0-9]*[a-z0-9])?$/;
const SUBDOMAIN = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/;

/** All reasons why `name` is not a DNS-1035 label, joined as the API server joins them; undefined if it is one. */
export function label1035Problem(name: string): string | undefined {
  const problems = [
    ...(name.length > 63 ? ['must be no more than 63 characters'] : []),
    ...(LABEL_1035.test(name)
      ? []
      : [
          "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and " +
            "end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is " +
            "'[a-z]([-a-z0-9]*[a-z0-9])?')",
        ]),
  ];
  return problems.length === 0 ? undefined : problems.join(',');
}

/** The same for a DNS subdomain. */
export function subdomainProblem(name: string): string | undefined {
  const problems = [
    ...(name.length > 253 ? ['must be no more than 253 characters'] : []),
    ...(SUBDOMAIN.test(name)
      ? []
      : [
          "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end " +
            "with an alphanumeric character (e.g. 'example.com', regex used for validation is " +
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        ]),
  ];
  return problems.length === 0 ? undefined : problems.join(',');
}
