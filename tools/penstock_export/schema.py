"""Arguments of operators as their schemas name them."""


def argument(node, name):
    """The value of an argument of `node`, the default of the operator's schema included."""
    for position, entry in enumerate(node.target._schema.arguments):
        if entry.name == name:
            if position < len(node.args):
                return node.args[position]
            return node.kwargs.get(name, entry.default_value)
    raise KeyError(name)
