"""What a DataLoader does over the data sets of this package: its iterators, its indices, its collate function."""
